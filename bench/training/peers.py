"""Times training steps in PyTorch, eager or compiled, or in JAX (jit) for `compare`.

    python peers.py torch|torch.compile|jax FOLDER

answers the requests that `serving.py` describes.
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(HERE), os.path.join(os.path.dirname(HERE), "compiled")]

from serving import serve


def library_rows():
    if sys.argv[1] == "jax":
        import jax_steps

        return jax_steps.rows()
    import torch_steps

    return torch_steps.rows(compiled=sys.argv[1] == "torch.compile")


serve(library_rows())
