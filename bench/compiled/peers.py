"""Times functions in PyTorch, eager or compiled, or in JAX (jit) for `compare`.

    python peers.py torch|torch.compile|jax FOLDER

answers the requests that `serving.py` describes.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from serving import serve


def library_rows():
    if sys.argv[1] == "jax":
        import jax_rows

        return jax_rows.rows()
    import torch_rows

    return torch_rows.rows(compiled=sys.argv[1] == "torch.compile")


serve(library_rows())
