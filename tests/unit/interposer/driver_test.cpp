// Devices, contexts, memory and modules, compared with the answers of an H200's
// driver.
#include "tests/unit/interposer/driver_fixture.hpp"

#include <array>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

using namespace vgpu;
using namespace vgpu::test;

namespace {

const char* const ptx = ".version 8.0\n.target sm_75\n.address_size 64\n";

struct module_fixture : driver_fixture {
  CUmodule module = nullptr;
  module_fixture() { REQUIRE_OK(cuModuleLoadData(&module, ptx)); }
  ~module_fixture() { cuModuleUnload(module); }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(driver, driver_fixture)

BOOST_AUTO_TEST_CASE(devices_follow_the_lease) {
  int count = 0;
  REQUIRE_OK(cuDeviceGetCount(&count));
  BOOST_TEST(count == 2);
  CUdevice d = -1;
  REQUIRE_OK(cuDeviceGet(&d, 1));
  BOOST_TEST(d == 1);
  CHECK_CODE(cuDeviceGet(&d, 2), CUDA_ERROR_INVALID_DEVICE);
  CHECK_CODE(cuDeviceGet(&d, -1), CUDA_ERROR_INVALID_DEVICE);
  std::array<char, 4> name{};
  REQUIRE_OK(cuDeviceGetName(name.data(), 4, 0));
  BOOST_TEST(std::string{name.data()} == "Fak");
  CHECK_CODE(cuDeviceGetName(name.data(), 0, 0), CUDA_ERROR_INVALID_VALUE);
  int value = 0;
  REQUIRE_OK(cuDeviceGetAttribute(&value,
                                  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
  BOOST_TEST(value == 132);
  CHECK_CODE(
      cuDeviceGetAttribute(&value, unknown_value<CUdevice_attribute>(150), 0),
      CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 7),
             CUDA_ERROR_INVALID_DEVICE);
  std::array<char, 32> bus{};
  REQUIRE_OK(cuDeviceGetPCIBusId(bus.data(), 32, 0));
  BOOST_TEST(std::string{bus.data()} == "0000:00:06.0");
  int version = 0;
  REQUIRE_OK(cuDriverGetVersion(&version));
  BOOST_TEST(version == 13000);
  CHECK_CODE(cuInit(1), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuInit(0));
}

BOOST_AUTO_TEST_CASE(a_device_has_an_id_of_its_bus) {
  CUdevice d = -1;
  for (const auto* text : {"0000:00:06.0", "00000000:00:06.0", "0000:00:06",
                           "00:06.0", " 0000:00:06.0"}) {
    d = -1;
    REQUIRE_OK(cuDeviceGetByPCIBusId(&d, text));
    BOOST_TEST(d == 0);
  }
  for (const auto* text : {"", "junk", "0000:00", "00:06", "0000:00:06.0 "})
    CHECK_CODE(cuDeviceGetByPCIBusId(&d, text), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuDeviceGetByPCIBusId(&d, "ffff:ff:1f.0"),
             CUDA_ERROR_INVALID_DEVICE);
  std::array<char, 14> bus{};
  REQUIRE_OK(cuDeviceGetPCIBusId(bus.data(), 13, 0));
  BOOST_TEST(std::string{bus.data()} == "0000:00:06.0");
  // An id that is cut is told, and is an error.
  CHECK_CODE(cuDeviceGetPCIBusId(bus.data(), 5, 0), CUDA_ERROR_INVALID_VALUE);
  BOOST_TEST(std::string{bus.data()} == "0000");
}

BOOST_AUTO_TEST_CASE(a_wider_linear_texture_has_smaller_elements) {
  int attribute = 0;
  REQUIRE_OK(cuDeviceGetAttribute(
      &attribute, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH, 0));
  auto width = static_cast<std::size_t>(attribute);
  std::size_t got = 0;
  REQUIRE_OK(
      cuDeviceGetTexture1DLinearMaxWidth(&got, CU_AD_FORMAT_FLOAT, 4, 0));
  BOOST_TEST(got == width);
  REQUIRE_OK(cuDeviceGetTexture1DLinearMaxWidth(
      &got, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0));
  BOOST_TEST(got == 4 * width);
  CHECK_CODE(cuDeviceGetTexture1DLinearMaxWidth(
                 &got, CU_AD_FORMAT_UNSIGNED_INT8, 3, 0),
             CUDA_ERROR_INVALID_VALUE);
}

BOOST_AUTO_TEST_CASE(a_device_is_no_peer_of_its_own) {
  unsigned can = 0;
  auto add = CU_ATOMIC_OPERATION_INTEGER_ADD;
  CHECK_CODE(cuDeviceGetP2PAtomicCapabilities(&can, &add, 1, 0, 0),
             CUDA_ERROR_INVALID_DEVICE);
  REQUIRE_OK(cuDeviceGetP2PAtomicCapabilities(&can, &add, 1, 0, 1));
}

BOOST_AUTO_TEST_CASE(errors_have_names_and_descriptions) {
  const char* text = nullptr;
  REQUIRE_OK(cuGetErrorString(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
  BOOST_TEST(std::string{text} == "an illegal memory access was encountered");
  CHECK_CODE(cuGetErrorName(unknown_value<CUresult>(12345), &text),
             CUDA_ERROR_INVALID_VALUE);
  BOOST_TEST((text == nullptr));
}

BOOST_AUTO_TEST_CASE(each_thread_has_a_stack_of_contexts) {
  CUcontext x = nullptr, made = nullptr;
  REQUIRE_OK(cuCtxCreate(&made, nullptr, 0, 1));
  REQUIRE_OK(cuCtxGetCurrent(&x));
  BOOST_TEST(x == made);
  CUdevice d = 0;
  REQUIRE_OK(cuCtxGetDevice(&d));
  BOOST_TEST(d == 1);
  REQUIRE_OK(cuCtxPushCurrent(primary));
  REQUIRE_OK(cuCtxPopCurrent(&x));
  BOOST_TEST(x == primary);
  std::thread{[] {
    CUcontext other = nullptr;
    CHECK_CODE(cuCtxGetCurrent(&other), CUDA_SUCCESS);
    BOOST_TEST((other == nullptr));
    CUdeviceptr p = 0;
    CHECK_CODE(cuMemAlloc(&p, 16), CUDA_ERROR_INVALID_CONTEXT);
    CHECK_CODE(cuCtxPopCurrent(&other), CUDA_ERROR_INVALID_CONTEXT);
  }}.join();
  REQUIRE_OK(cuCtxDestroy(made));
  REQUIRE_OK(cuCtxGetCurrent(&x));
  BOOST_TEST(x == primary);
  CHECK_CODE(cuCtxDestroy(made), CUDA_ERROR_INVALID_CONTEXT);
  CHECK_CODE(cuCtxDestroy(primary), CUDA_ERROR_INVALID_CONTEXT);
  CHECK_CODE(cuCtxSetCurrent(reinterpret_cast<CUcontext>(&x)),
             CUDA_ERROR_INVALID_CONTEXT);
}

BOOST_AUTO_TEST_CASE(primary_contexts_count_their_holders) {
  unsigned flags = 9;
  int active = 9;
  REQUIRE_OK(cuDevicePrimaryCtxGetState(1, &flags, &active));
  BOOST_TEST(active == 0);
  CUcontext a = nullptr, b = nullptr;
  REQUIRE_OK(cuDevicePrimaryCtxRetain(&a, 1));
  REQUIRE_OK(cuDevicePrimaryCtxRetain(&b, 1));
  BOOST_TEST(a == b);
  REQUIRE_OK(cuDevicePrimaryCtxGetState(1, &flags, &active));
  BOOST_TEST(active == 1);
  REQUIRE_OK(cuDevicePrimaryCtxRelease(1));
  REQUIRE_OK(cuDevicePrimaryCtxRelease(1));
  CHECK_CODE(cuDevicePrimaryCtxRelease(1), CUDA_ERROR_INVALID_CONTEXT);
}

BOOST_AUTO_TEST_CASE(a_reset_destroys_a_contexts_objects) {
  CUdeviceptr p = 0;
  REQUIRE_OK(cuMemAlloc(&p, 1000));
  CUstream s = nullptr;
  REQUIRE_OK(cuStreamCreate(&s, 0));
  REQUIRE_OK(cuDevicePrimaryCtxReset(0));
  CHECK_CODE(cuMemAlloc(&p, 16), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CUcontext again = nullptr;
  REQUIRE_OK(cuDevicePrimaryCtxRetain(&again, 0));
  BOOST_TEST(again == primary);
  CHECK_CODE(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuStreamQuery(s), CUDA_ERROR_INVALID_HANDLE);
  std::size_t free = 0, total = 0;
  REQUIRE_OK(cuMemGetInfo(&free, &total));
  BOOST_TEST(free == total);
  REQUIRE_OK(cuDevicePrimaryCtxRelease(0));
}

BOOST_AUTO_TEST_CASE(limits_have_the_drivers_values) {
  std::size_t value = 0;
  REQUIRE_OK(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
  BOOST_TEST(value == 1024U);
  REQUIRE_OK(cuCtxGetLimit(&value, CU_LIMIT_PRINTF_FIFO_SIZE));
  BOOST_TEST(value == 8650752U);
  CHECK_CODE(cuCtxGetLimit(&value, unknown_value<CUlimit>(99)),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1U << 30),
             CUDA_ERROR_INVALID_VALUE);
}

BOOST_AUTO_TEST_CASE(memory_is_allocated_at_once_and_freed_once) {
  CUdeviceptr a = 0, b = 0;
  CHECK_CODE(cuMemAlloc(&a, 0), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuMemAlloc(nullptr, 16), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuMemAlloc(&a, std::size_t{1} << 46), CUDA_ERROR_OUT_OF_MEMORY);
  REQUIRE_OK(cuMemAlloc(&a, 1));
  REQUIRE_OK(cuMemAlloc(&b, 256));
  BOOST_TEST(b - a == 512U);
  CUdeviceptr base = 0;
  std::size_t size = 0;
  REQUIRE_OK(cuMemGetAddressRange(&base, &size, b + 100));
  BOOST_TEST(base == b);
  BOOST_TEST(size == 256U);
  REQUIRE_OK(cuMemFree(0));
  CHECK_CODE(cuMemFree(b + 1), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuMemFree(0x1234), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuMemFree(a));
  CHECK_CODE(cuMemFree(a), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuMemFree(b));
}

BOOST_AUTO_TEST_CASE(an_allocation_beyond_the_quota_fails_at_once) {
  CUdeviceptr a = 0, b = 0;
  auto gib = std::size_t{1} << 30;
  std::size_t free = 0, total = 0;
  REQUIRE_OK(cuMemAlloc(&a, gib));
  REQUIRE_OK(cuMemGetInfo(&free, &total));
  BOOST_TEST(free == 0U);
  BOOST_TEST(total == gib);
  CHECK_CODE(cuMemAlloc(&b, 1), CUDA_ERROR_OUT_OF_MEMORY);
  REQUIRE_OK(cuMemFree(a));
  REQUIRE_OK(cuMemAlloc(&b, gib));
  REQUIRE_OK(cuMemFree(b));
}

BOOST_AUTO_TEST_CASE(pointer_attributes_describe_the_memory) {
  CUdeviceptr d = 0;
  void* h = nullptr;
  REQUIRE_OK(cuMemAlloc(&d, 4096));
  REQUIRE_OK(cuMemHostAlloc(&h, 4096, 0));
  BOOST_TEST(reinterpret_cast<std::uintptr_t>(h) >= host_window);
  std::memset(h, 1, 4096);
  unsigned type = 0;
  auto type_of = [&](CUdeviceptr p) {
    return cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p);
  };
  REQUIRE_OK(type_of(d + 7));
  BOOST_TEST(type == static_cast<unsigned>(CU_MEMORYTYPE_DEVICE));
  REQUIRE_OK(type_of(reinterpret_cast<CUdeviceptr>(h)));
  BOOST_TEST(type == static_cast<unsigned>(CU_MEMORYTYPE_HOST));
  int local = 0;
  CHECK_CODE(type_of(reinterpret_cast<CUdeviceptr>(&local)),
             CUDA_ERROR_INVALID_VALUE);
  CUpointer_attribute which = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
  void* into = &type;
  type = 77;
  REQUIRE_OK(cuPointerGetAttributes(1, &which, &into,
                                    reinterpret_cast<CUdeviceptr>(&local)));
  BOOST_TEST(type == 0U);
  CHECK_CODE(cuMemFreeHost(&local), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuMemFreeHost(h));
  REQUIRE_OK(cuMemFree(d));
}

BOOST_AUTO_TEST_CASE(host_memory_is_registered_once) {
  std::vector<char> page(8192);
  REQUIRE_OK(cuMemHostRegister(page.data(), 4096, 0));
  CHECK_CODE(cuMemHostRegister(page.data(), 4096, 0),
             CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  REQUIRE_OK(cuMemHostUnregister(page.data()));
  CHECK_CODE(cuMemHostUnregister(page.data()),
             CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

BOOST_AUTO_TEST_CASE(kernels_use_a_copy_of_registered_memory) {
  std::array<unsigned char, 100> own{};
  own[40] = 7;
  REQUIRE_OK(cuMemHostRegister(&own[30], 20, CU_MEMHOSTREGISTER_DEVICEMAP));
  CUdeviceptr at = 0;
  CHECK_CODE(cuMemHostGetDevicePointer(&at, own.data(), 0),
             CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuMemHostGetDevicePointer(&at, &own[40], 0));
  CUdeviceptr again = 0;
  REQUIRE_OK(cuMemHostGetDevicePointer(&again, &own[30], 0));
  BOOST_TEST(at == again + 10);
  auto* copy = reinterpret_cast<volatile unsigned char*>(at);
  BOOST_TEST(int{copy[0]} == 7);
  own[40] = 8;
  own[29] = 1; // not registered
  copy[1] = 9;
  REQUIRE_OK(cuCtxSynchronize());
  BOOST_TEST(int{copy[0]} == 8);
  BOOST_TEST(int{own[41]} == 9);
  copy[2] = 10;
  REQUIRE_OK(cuMemHostUnregister(&own[30]));
  BOOST_TEST(int{own[42]} == 10);
  BOOST_TEST(int{own[29]} == 1);
}

BOOST_AUTO_TEST_CASE(a_part_of_registered_memory_is_not_unregistered) {
  std::vector<char> page(8192);
  REQUIRE_OK(cuMemHostRegister(page.data(), 8192, 0));
  CHECK_CODE(cuMemHostUnregister(page.data() + 4096), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuMemHostUnregister(page.data()));
}

BOOST_AUTO_TEST_CASE(memory_of_cuda_is_not_registered) {
  void* pinned = nullptr;
  REQUIRE_OK(cuMemHostAlloc(&pinned, 8192, 0));
  CUdeviceptr device = 0;
  REQUIRE_OK(cuMemAlloc(&device, 8192));
  for (auto* p : {pinned, reinterpret_cast<void*>(device)}) {
    CHECK_CODE(cuMemHostRegister(p, 4096, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_CODE(cuMemHostUnregister(p), CUDA_ERROR_INVALID_VALUE);
  }
  REQUIRE_OK(cuMemFree(device));
  REQUIRE_OK(cuMemFreeHost(pinned));
}

BOOST_AUTO_TEST_CASE(pools_allocate_and_free_in_stream_order) {
  CUmemoryPool pool = nullptr;
  REQUIRE_OK(cuDeviceGetDefaultMemPool(&pool, 0));
  CUdeviceptr p = 0;
  REQUIRE_OK(cuMemAllocAsync(&p, 1000, nullptr));
  cuuint64_t used = 0;
  REQUIRE_OK(
      cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
  BOOST_TEST(used == 1000U);
  REQUIRE_OK(cuMemFreeAsync(p, nullptr));
  CHECK_CODE(cuMemFreeAsync(p, nullptr), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(
      cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
  BOOST_TEST(used == 0U);
  CHECK_CODE(cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_VALUE);
}

BOOST_AUTO_TEST_CASE(an_unsupported_call_returns_not_supported) {
  CUmemGenericAllocationHandle x = 0;
  CHECK_CODE(cuMulticastCreate(&x, nullptr), CUDA_ERROR_NOT_SUPPORTED);
}

BOOST_AUTO_TEST_CASE(invalid_modules_are_refused) {
  CUmodule m = nullptr;
  CHECK_CODE(cuModuleLoadData(&m, "garbage"), CUDA_ERROR_INVALID_IMAGE);
  CHECK_CODE(cuModuleLoadData(&m, ""), CUDA_ERROR_INVALID_IMAGE);
  CHECK_CODE(cuModuleLoadData(&m, nullptr), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuModuleLoad(&m, "/nowhere/at.all"), CUDA_ERROR_FILE_NOT_FOUND);
  CHECK_CODE(cuModuleLoad(&m, ""), CUDA_ERROR_INVALID_VALUE);
}

BOOST_FIXTURE_TEST_CASE(modules_find_kernels_and_variables_by_name,
                        module_fixture) {
  CUfunction f = nullptr;
  REQUIRE_OK(cuModuleGetFunction(&f, module, "mixed"));
  CHECK_CODE(cuModuleGetFunction(&f, module, "other"), CUDA_ERROR_NOT_FOUND);
  CHECK_CODE(cuModuleGetFunction(&f, module, ""), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuModuleGetFunction(&f, module, nullptr),
             CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr p = 0;
  std::size_t bytes = 0;
  REQUIRE_OK(cuModuleGetGlobal(&p, &bytes, module, "table"));
  BOOST_TEST(bytes == 16U);
  REQUIRE_OK(cuModuleGetGlobal(&p, nullptr, module, "table"));
  CHECK_CODE(cuModuleGetGlobal(&p, &bytes, module, "mixed"),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuModuleGetGlobal(&p, &bytes, module, "other"),
             CUDA_ERROR_NOT_FOUND);
  REQUIRE_OK(cuMemsetD8(p, 1, 16));
  CHECK_CODE(cuMemsetD8(p, 1, 17), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
  std::size_t offset = 0, size = 0;
  REQUIRE_OK(cuFuncGetParamInfo(f, 2, &offset, &size));
  BOOST_TEST(offset == 8U);
  BOOST_TEST(size == 40U);
  CHECK_CODE(cuFuncGetParamInfo(f, 5, &offset, &size),
             CUDA_ERROR_INVALID_VALUE);
  const char* name = nullptr;
  REQUIRE_OK(cuFuncGetName(&name, f));
  BOOST_TEST(std::string{name} == "mixed");
  unsigned count = 0;
  REQUIRE_OK(cuModuleGetFunctionCount(&count, module));
  BOOST_TEST(count == 3U);
}

BOOST_AUTO_TEST_CASE(a_module_is_unloaded_once) {
  CUmodule m = nullptr;
  REQUIRE_OK(cuModuleLoadData(&m, ptx));
  CUfunction f = nullptr;
  REQUIRE_OK(cuModuleGetFunction(&f, m, "none"));
  REQUIRE_OK(cuModuleUnload(m));
  CHECK_CODE(cuModuleUnload(m), CUDA_ERROR_INVALID_HANDLE);
  int value = 0;
  CHECK_CODE(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, f),
             CUDA_ERROR_INVALID_HANDLE);
}

BOOST_AUTO_TEST_CASE(an_image_is_sent_once) {
  auto before = fake().counts()[5];
  CUmodule a = nullptr, b = nullptr;
  auto text = std::string{ptx} + "// once";
  REQUIRE_OK(cuModuleLoadData(&a, text.c_str()));
  REQUIRE_OK(cuModuleLoadData(&b, text.c_str()));
  BOOST_TEST(fake().counts()[5] == before + 1);
  REQUIRE_OK(cuModuleUnload(a));
  REQUIRE_OK(cuModuleUnload(b));
}

BOOST_AUTO_TEST_CASE(libraries_are_loaded_at_first_use) {
  CUlibrary garbage = nullptr, library = nullptr;
  auto load = [](CUlibrary* l, const void* image) {
    return cuLibraryLoadData(l, image, nullptr, nullptr, 0, nullptr, nullptr,
                             0);
  };
  REQUIRE_OK(load(&garbage, "garbage"));
  CUkernel k = nullptr;
  CHECK_CODE(cuLibraryGetKernel(&k, garbage, "none"), CUDA_ERROR_INVALID_IMAGE);
  REQUIRE_OK(cuLibraryUnload(garbage));
  REQUIRE_OK(load(&library, ptx));
  CHECK_CODE(cuLibraryGetKernel(&k, library, "other"), CUDA_ERROR_NOT_FOUND);
  REQUIRE_OK(cuLibraryGetKernel(&k, library, "mixed"));
  CUfunction f = nullptr;
  REQUIRE_OK(cuKernelGetFunction(&f, k));
  int value = 0;
  REQUIRE_OK(cuKernelGetAttribute(
      &value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, k, 0));
  BOOST_TEST(value == 512);
  REQUIRE_OK(
      cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f));
  CHECK_CODE(
      cuFuncGetAttribute(&value, unknown_value<CUfunction_attribute>(99), f),
      CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(
      cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                           1 << 20, k, 0),
      CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuKernelSetAttribute(
      CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000, k, 0));
  std::size_t offset = 0, size = 0;
  REQUIRE_OK(cuKernelGetParamInfo(k, 0, &offset, &size));
  REQUIRE_OK(cuLibraryUnload(library));
  CHECK_CODE(cuLibraryUnload(library), CUDA_ERROR_INVALID_HANDLE);
  CHECK_CODE(cuKernelGetFunction(&f, k), CUDA_ERROR_INVALID_HANDLE);
}

BOOST_AUTO_TEST_CASE(a_query_of_a_function_refuses_a_kernel) {
  CUlibrary library = nullptr;
  REQUIRE_OK(cuLibraryLoadData(&library, ptx, nullptr, nullptr, 0, nullptr,
                               nullptr, 0));
  CUkernel k = nullptr;
  REQUIRE_OK(cuLibraryGetKernel(&k, library, "mixed"));
  CUfunction f = nullptr;
  REQUIRE_OK(cuKernelGetFunction(&f, k));
  auto cast = reinterpret_cast<CUfunction>(k);
  const char* name = nullptr;
  CHECK_CODE(cuFuncGetName(&name, cast), CUDA_ERROR_INVALID_HANDLE);
  CUmodule module = nullptr;
  CHECK_CODE(cuFuncGetModule(&module, cast), CUDA_ERROR_INVALID_HANDLE);
  int value = 0;
  CHECK_CODE(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, cast),
             CUDA_ERROR_INVALID_HANDLE);
  std::size_t offset = 0, size = 0;
  CHECK_CODE(cuFuncGetParamInfo(cast, 0, &offset, &size),
             CUDA_ERROR_INVALID_HANDLE);
  CHECK_CODE(cuFuncSetCacheConfig(cast, CU_FUNC_CACHE_PREFER_L1),
             CUDA_ERROR_INVALID_HANDLE);
  CUfunction out = nullptr;
  CHECK_CODE(cuKernelGetFunction(&out, reinterpret_cast<CUkernel>(f)),
             CUDA_ERROR_INVALID_HANDLE);
  // Launches and occupancy take either.
  int blocks = 0;
  REQUIRE_OK(
      cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, cast, 256, 0));
  void* pointer = nullptr;
  CHECK_CODE(cuLibraryGetUnifiedFunction(&pointer, library, "mixed"),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuLibraryGetUnifiedFunction(&pointer, nullptr, "mixed"),
             CUDA_ERROR_INVALID_HANDLE);
  CUcontext current = nullptr;
  REQUIRE_OK(cuCtxPopCurrent(&current));
  CHECK_CODE(cuKernelGetParamInfo(k, 0, &offset, &size),
             CUDA_ERROR_INVALID_CONTEXT);
  REQUIRE_OK(cuCtxPushCurrent(current));
  REQUIRE_OK(cuLibraryUnload(library));
}

BOOST_FIXTURE_TEST_CASE(occupancy_is_computed_in_the_program, module_fixture) {
  CUfunction f = nullptr;
  REQUIRE_OK(cuModuleGetFunction(&f, module, "none"));
  int blocks = 0;
  REQUIRE_OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, 256, 0));
  BOOST_TEST(blocks == 8);
  CHECK_CODE(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, 0, 0),
             CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, 2000, 0));
  BOOST_TEST(blocks == 0);
  int grid = 0, block = 0;
  REQUIRE_OK(cuOccupancyMaxPotentialBlockSize(&grid, &block, f, nullptr, 0, 0));
  BOOST_TEST(block == 512);
  BOOST_TEST(grid == 4 * 132);
}

BOOST_AUTO_TEST_CASE(notification_callbacks_are_registered_and_removed) {
  CUasyncCallback never = [](CUasyncNotificationInfo*, void*,
                             CUasyncCallbackHandle) {};
  CUasyncCallbackHandle one = nullptr;
  CHECK_CODE(cuDeviceRegisterAsyncNotification(7, never, nullptr, &one),
             CUDA_ERROR_INVALID_DEVICE);
  CHECK_CODE(cuDeviceRegisterAsyncNotification(0, nullptr, nullptr, &one),
             CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuDeviceRegisterAsyncNotification(0, never, nullptr, &one));
  BOOST_TEST(one != nullptr);
  CHECK_CODE(cuDeviceUnregisterAsyncNotification(7, one),
             CUDA_ERROR_INVALID_DEVICE);
  REQUIRE_OK(cuDeviceUnregisterAsyncNotification(0, one));
  CHECK_CODE(cuDeviceUnregisterAsyncNotification(0, one),
             CUDA_ERROR_INVALID_VALUE);
}

BOOST_AUTO_TEST_CASE(a_peer_attribute_needs_a_place_and_two_devices) {
  int value = 0;
  CHECK_CODE(cuDeviceGetP2PAttribute(
                 nullptr, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 0),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuDeviceGetP2PAttribute(
                 &value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 0),
             CUDA_ERROR_INVALID_DEVICE);
}

BOOST_AUTO_TEST_SUITE_END()
