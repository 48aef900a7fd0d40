// Prints the devices' properties, and checks them for plausible values.
#include <iostream>

#define sure(condition)                                                        \
  if (!(condition)) {                                                          \
    std::cout << "not so: " << #condition << std::endl;                        \
    return 1;                                                                  \
  }

int main() {
  int count = 0, driver = 0, runtime = 0;
  sure(cudaGetDeviceCount(&count) == cudaSuccess);
  sure(cudaDriverGetVersion(&driver) == cudaSuccess);
  sure(cudaRuntimeGetVersion(&runtime) == cudaSuccess);
  std::cout << count << " device(s), driver " << driver << ", runtime "
            << runtime << '\n';
  sure(count >= 1 && driver >= runtime);
  for (int device = 0; device < count; ++device) {
    cudaDeviceProp p;
    sure(cudaGetDeviceProperties(&p, device) == cudaSuccess);
    std::cout << device << ": " << p.name << ", compute capability " << p.major
              << '.' << p.minor << ", " << (p.totalGlobalMem >> 20) << " MiB, "
              << p.multiProcessorCount << " multiprocessors, "
              << p.sharedMemPerBlock << " bytes of shared memory a block, bus "
              << p.pciDomainID << ':' << p.pciBusID << '\n';
    sure(p.name[0] != 0);
    sure(p.major * 10 + p.minor >= 75);
    sure(p.warpSize == 32);
    sure(p.maxThreadsPerBlock == 1024);
    sure(p.totalGlobalMem > 0 && p.multiProcessorCount > 0);
    sure(p.sharedMemPerBlock >= 48 * 1024);
    sure(p.unifiedAddressing == 1);
    int value = 0;
    sure(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount,
                                device) == cudaSuccess);
    sure(value == p.multiProcessorCount);
    char bus[32] = {};
    sure(cudaDeviceGetPCIBusId(bus, sizeof bus, device) == cudaSuccess);
    int same = -1;
    sure(cudaDeviceGetByPCIBusId(&same, bus) == cudaSuccess);
    sure(same == device);
    sure(cudaSetDevice(device) == cudaSuccess);
    size_t free = 0, total = 0;
    sure(cudaMemGetInfo(&free, &total) == cudaSuccess);
    std::cout << "   " << (free >> 20) << " of " << (total >> 20)
              << " MiB free\n";
    sure(free > 0 && free <= total && total == p.totalGlobalMem);
  }
  std::cout << "ok" << std::endl;
}
