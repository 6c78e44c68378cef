"""CPython's tests of multiprocessing, as it has them for each start method, for the start method "kumiki"."""

import kumiki.mp  # noqa: F401
from test._test_multiprocessing import install_tests_in_module_dict

install_tests_in_module_dict(globals(), "kumiki")
