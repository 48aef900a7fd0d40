"""A pytest plugin for suites.py: lets Numba 0.56 find the driver's calls of CUDA 13.

Numba takes a call's form _v2 where there is one. CUDA 13 gave these two calls forms
with other arguments, so Numba 0.56 runs with no driver of CUDA 13 by itself.
"""

from numba.cuda.cudadrv.driver import Driver

find_api = Driver._find_api


def find_first_form(self, name):
    if name in ("cuCtxGetDevice", "cuCtxSynchronize"):
        return getattr(self.lib, name)
    return find_api(self, name)


Driver._find_api = find_first_form
