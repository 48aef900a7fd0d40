"""Runs PyTorch workloads; see --help."""

import features  # noqa: F401 (each import adds its workloads)
import libraries  # noqa: F401
import training  # noqa: F401
import workload

if __name__ == "__main__":
    workload.run()
