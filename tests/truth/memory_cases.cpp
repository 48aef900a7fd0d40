// Allocations, copies, fills, host memory, and mapped addresses.
#include "truth_case.hpp"

#include <bit>
#include <string>
#include <vector>

namespace vgpu::test {

namespace {

constexpr CUdeviceptr bad_address = 0x1230;

void allocations(report& out) {
  use_device();
  CUdeviceptr p = 0;
  out << cuMemAlloc(&p, 0) << cuMemAlloc(nullptr, 16)
      << cuMemAlloc(&p, size_t{1} << 46) << cuMemAlloc(&p, 16);
}

void frees(report& out) {
  use_device();
  auto p = allocate(4096);
  out << cuMemFree(0) << cuMemFree(bad_address) << cuMemFree(p + 16)
      << cuMemFree(p) << cuMemFree(p);
}

void copies_up(report& out) {
  use_device();
  auto p = allocate(4096);
  std::vector<char> host(8192);
  out << cuMemcpyHtoD(0, host.data(), 16) << cuMemcpyHtoD(p, nullptr, 16)
      << cuMemcpyHtoD(p, host.data(), 8192) << cuMemcpyHtoD(p, host.data(), 0);
}

void copies_down(report& out) {
  use_device();
  auto p = allocate(4096);
  std::vector<char> host(8192);
  out << cuMemcpyDtoH(host.data(), bad_address, 16)
      << cuMemcpyDtoH(host.data(), p, 8192) << cuMemcpyDtoD(p + 16, p, 256)
      << cuMemsetD8(p, 1, 8192) << cuMemsetD32(p + 1, 1, 4);
}

void copies_by_address(report& out) {
  use_device();
  auto p = allocate(4096);
  std::vector<char> host(64), other(64);
  auto address = [](std::vector<char>& bytes) {
    return reinterpret_cast<CUdeviceptr>(bytes.data());
  };
  out << cuMemcpy(address(host), address(other), 64)
      << cuMemcpy(p, address(host), 64);
}

void copies_of_rows(report& out) {
  use_device();
  auto p = allocate(4096);
  std::vector<char> host(4096);
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = host.data();
  copy.srcPitch = 32;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = p;
  copy.dstPitch = 64;
  copy.WidthInBytes = 64;
  copy.Height = 8;
  out << cuMemcpy2D(&copy);
  copy.srcPitch = 128;
  out << cuMemcpy2D(&copy);
}

void pointer_attributes(report& out) {
  use_device();
  auto p = allocate(4096);
  int local = 0;
  unsigned type = 0;
  out << cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                               reinterpret_cast<CUdeviceptr>(&local));
  out << cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p)
      << "type" << static_cast<int>(type);
  out << cuPointerGetAttribute(&type, std::bit_cast<CUpointer_attribute>(9999),
                               p);
}

void address_range(report& out) {
  use_device();
  auto p = allocate(256);
  CUdeviceptr base = 0;
  size_t size = 0;
  out << cuMemGetAddressRange(&base, &size, p + 10) << "off"
      << static_cast<long long>(base - p) << "size"
      << static_cast<long long>(size);
  out << cuMemGetInfo(nullptr, nullptr);
}

void host_memory(report& out) {
  use_device();
  alignas(4096) char page[4096];
  void* p = nullptr;
  out << cuMemHostRegister(page, sizeof page, 0)
      << cuMemHostRegister(page, sizeof page, 0) << cuMemHostUnregister(page)
      << cuMemHostUnregister(page) << cuMemHostAlloc(&p, 0, 0)
      << cuMemFreeHost(reinterpret_cast<void*>(bad_address));
}

void registered_allocations(report& out) {
  constexpr size_t bytes = 16384;
  use_device();
  void* pinned = nullptr;
  require(cuMemHostAlloc(&pinned, bytes, 0), "cuMemHostAlloc");
  CUdeviceptr managed = 0;
  require(cuMemAllocManaged(&managed, bytes, CU_MEM_ATTACH_GLOBAL),
          "cuMemAllocManaged");
  auto device = allocate(bytes);
  for (auto* p : {pinned, reinterpret_cast<void*>(managed),
                  reinterpret_cast<void*>(device)})
    out << cuMemHostRegister(p, 4096, 0) << cuMemHostUnregister(p);
}

void registered_parts(report& out) {
  use_device();
  alignas(4096) static char pages[4 * 4096];
  out << cuMemHostRegister(pages, 8192, 0) << cuMemHostUnregister(pages + 4096)
      << cuMemHostRegister(pages + 4096, 8192, 0) << cuMemFreeHost(pages)
      << cuMemHostUnregister(pages) << cuMemHostRegister(pages + 100, 1000, 0)
      << cuMemHostUnregister(pages) << cuMemHostUnregister(pages + 100);
}

void mapped_addresses(report& out) {
  constexpr size_t granule = size_t{2} << 20;
  use_device();
  CUdeviceptr p = 0;
  out << cuMemAddressReserve(&p, 1000, 0, 0, 0)
      << cuMemAddressReserve(&p, granule, 3, 0, 0);
  CUmemAllocationProp prop = {};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemGenericAllocationHandle handle = 0;
  out << cuMemCreate(&handle, 0, &prop, 0)
      << cuMemAddressReserve(&p, granule, 0, 0, 0)
      << cuMemCreate(&handle, granule, &prop, 0)
      << cuMemMap(p, granule, 0, handle, 0);
  int value = 0;
  out << cuMemsetD8(p, 1, 16) << cuMemcpyHtoD(p, &value, sizeof value);
}

constexpr truth_case cases[] = {
    {"allocations", "MemAlloc(0), (null), (1<<46), then 16 bytes",
     "CUDA_ERROR_INVALID_VALUE CUDA_ERROR_INVALID_VALUE "
     "CUDA_ERROR_OUT_OF_MEMORY CUDA_SUCCESS",
     allocations},
    {"frees", "MemFree(0), (bad), (inner), ok, double",
     "CUDA_SUCCESS CUDA_ERROR_INVALID_VALUE CUDA_ERROR_INVALID_VALUE "
     "CUDA_SUCCESS CUDA_ERROR_INVALID_VALUE",
     frees},
    {"copies_up", "MemcpyHtoD null dst, null src, past end, zero bytes",
     "CUDA_ERROR_INVALID_VALUE CUDA_ERROR_INVALID_VALUE "
     "CUDA_ERROR_INVALID_VALUE CUDA_SUCCESS",
     copies_up},
    {"copies_down",
     "MemcpyDtoH bad src, past end; DtoD overlapping; MemsetD8 past end, D32 "
     "misaligned",
     "CUDA_ERROR_INVALID_VALUE CUDA_ERROR_INVALID_VALUE CUDA_SUCCESS "
     "CUDA_ERROR_INVALID_VALUE CUDA_ERROR_INVALID_VALUE",
     copies_down},
    {"copies_by_address", "Memcpy(host,host), Memcpy(dev,host)",
     "CUDA_SUCCESS CUDA_SUCCESS", copies_by_address},
    {"copies_of_rows", "Memcpy2D pitch too small; ok",
     "CUDA_ERROR_INVALID_VALUE CUDA_SUCCESS", copies_of_rows},
    {"pointer_attributes",
     "PointerGetAttribute: host ptr type, dev ptr type, bad attr",
     "CUDA_ERROR_INVALID_VALUE CUDA_SUCCESS type 2 CUDA_ERROR_INVALID_VALUE",
     pointer_attributes},
    {"address_range", "MemGetAddressRange inner; MemGetInfo(null)",
     "CUDA_SUCCESS off 0 size 256 CUDA_SUCCESS", address_range},
    {"host_memory",
     "MemHostRegister stack page twice; Unregister twice; HostAlloc(0); "
     "FreeHost(bad)",
     "CUDA_SUCCESS CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED CUDA_SUCCESS "
     "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED CUDA_SUCCESS "
     "CUDA_ERROR_INVALID_VALUE",
     host_memory},
    {"registered_allocations",
     "MemHostRegister and Unregister of pinned, managed and device memory",
     "CUDA_ERROR_INVALID_VALUE CUDA_ERROR_INVALID_VALUE "
     "CUDA_ERROR_INVALID_VALUE CUDA_ERROR_INVALID_VALUE "
     "CUDA_ERROR_INVALID_VALUE CUDA_ERROR_INVALID_VALUE",
     registered_allocations},
    {"registered_parts",
     "MemHostRegister two pages, Unregister the second, Register an overlap, "
     "FreeHost, Unregister; Register inside a page, Unregister the page, the "
     "place",
     "CUDA_SUCCESS CUDA_ERROR_INVALID_VALUE "
     "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED CUDA_ERROR_INVALID_VALUE "
     "CUDA_SUCCESS CUDA_SUCCESS CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED "
     "CUDA_SUCCESS",
     registered_parts},
    {"mapped_addresses",
     "MemAddressReserve bad size/alignment, MemCreate(0); reserve, create, map "
     "without access, then MemsetD8, MemcpyHtoD",
     "CUDA_ERROR_INVALID_VALUE CUDA_ERROR_INVALID_VALUE "
     "CUDA_ERROR_INVALID_VALUE CUDA_SUCCESS CUDA_SUCCESS CUDA_SUCCESS "
     "CUDA_ERROR_INVALID_VALUE CUDA_ERROR_INVALID_VALUE",
     mapped_addresses},
};

} // namespace

std::span<const truth_case> memory_cases() {
  return cases;
}

} // namespace vgpu::test
