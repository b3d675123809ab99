import Config

# Nothing is set here: ExBurn works without configuration, and the tests name the backend and
# the compiler they use. What can be set is in the README.
