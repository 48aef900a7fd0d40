// Memory and pools as descriptors, in the program that makes or imports them.
// The test plays the other process.
#include "tests/unit/interposer/driver_fixture.hpp"

#include "schema/base/shared_resource.hpp"
#include "schema/log/session_area.hpp"

#include <xxhash.h>

#include <array>
#include <cstring>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace vgpu;
using namespace vgpu::test;

namespace {

constexpr int placed_destroy_number = 48, placed_share_number = 63,
              placed_import_number = 64;
constexpr auto as_file = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
constexpr CUmemLocation device_zero{CU_MEM_LOCATION_TYPE_DEVICE, {0}};

/// A descriptor's contents: kind, secret, number, serial, layout, device,
/// check.
struct said {
  std::array<std::uint64_t, 9> at{};

  static said by(int file) {
    said out;
    BOOST_TEST_REQUIRE(::recv(file, &out, sizeof(out), MSG_PEEK) ==
                       static_cast<ssize_t>(sizeof(out)));
    return out;
  }
  said checked() const {
    auto out = *this;
    out.at[8] = XXH3_64bits(&out, 8 * sizeof(std::uint64_t));
    return out;
  }
  said with(std::size_t word, std::uint64_t value) const {
    auto out = *this;
    out.at[word] = value;
    return out.checked();
  }
  /// Returns the contents as another process would have written them.
  said foreign() const { return with(1, at[1] + 1); }
};

/// A descriptor in this library's form with any contents.
struct forged {
  unique_fd file, other_end;

  explicit forged(std::span<const std::byte> bytes, int type = SOCK_SEQPACKET) {
    int ends[2];
    BOOST_TEST_REQUIRE(::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) ==
                       0);
    file = unique_fd{ends[0]};
    other_end = unique_fd{ends[1]};
    if (!bytes.empty())
      BOOST_TEST_REQUIRE(::send(ends[1], bytes.data(), bytes.size(), 0) ==
                         static_cast<ssize_t>(bytes.size()));
  }
  explicit forged(const said& x) : forged{std::as_bytes(std::span{x.at})} {}

  bool is_held() const {
    pollfd one{other_end.get(), 0, 0};
    return ::poll(&one, 1, 0) == 0;
  }
};

void* number_of(int file) {
  return reinterpret_cast<void*>(static_cast<std::intptr_t>(file));
}

CUresult take(CUmemGenericAllocationHandle& out, int file) {
  return cuMemImportFromShareableHandle(&out, number_of(file), as_file);
}

CUmemGenericAllocationHandle create(std::uint64_t bytes, unsigned types) {
  CUmemAllocationProp what{};
  what.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  what.location = device_zero;
  what.requestedHandleTypes = std::bit_cast<CUmemAllocationHandleType>(types);
  CUmemGenericAllocationHandle out = 0;
  REQUIRE_OK(cuMemCreate(&out, bytes, &what, 0));
  return out;
}

std::size_t free_bytes() {
  std::size_t free = 0, total = 0;
  REQUIRE_OK(cuMemGetInfo(&free, &total));
  return free;
}

CUmemPoolProps pool_of(CUmemAllocationHandleType types) {
  CUmemPoolProps out{};
  out.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  out.location = device_zero;
  out.handleTypes = types;
  return out;
}

struct handing : driver_fixture {
  static constexpr auto bytes = 3 * granule_bytes;
  CUmemGenericAllocationHandle memory = create(bytes, as_file);
  unique_fd file = give(memory);

  ~handing() { cuMemRelease(memory); }

  static unique_fd give(CUmemGenericAllocationHandle what) {
    int out = -1;
    REQUIRE_OK(cuMemExportToShareableHandle(&out, what, as_file, 0));
    return unique_fd{out};
  }
  static int count(int number) {
    REQUIRE_OK(cuCtxSynchronize());
    return fake().counts()[static_cast<std::uint16_t>(number)];
  }
};

/// Memory of the host, mapped at one of two granules that the program reserved.
struct of_the_host : driver_fixture {
  static constexpr auto bytes = granule_bytes;
  static constexpr CUmemLocation host{CU_MEM_LOCATION_TYPE_HOST, {0}};
  static constexpr CUmemLocation node{CU_MEM_LOCATION_TYPE_HOST_NUMA, {0}};
  CUdeviceptr at = 0;
  CUmemGenericAllocationHandle memory = 0;

  of_the_host() {
    REQUIRE_OK(cuMemAddressReserve(&at, 3 * bytes, 0, 0, 0));
    REQUIRE_OK(make(host, CU_MEM_HANDLE_TYPE_NONE, memory));
    REQUIRE_OK(cuMemMap(at, bytes, 0, memory, 0));
  }
  ~of_the_host() {
    cuMemUnmap(at, bytes);
    cuMemRelease(memory);
    cuMemAddressFree(at, 3 * bytes);
  }

  static CUresult make(CUmemLocation where, CUmemAllocationHandleType shared,
                       CUmemGenericAllocationHandle& out) {
    CUmemAllocationProp what{};
    what.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    what.location = where;
    what.requestedHandleTypes = shared;
    return cuMemCreate(&out, bytes, &what, 0);
  }
  static CUresult allow(CUdeviceptr where, CUmemLocation by,
                        CUmemAccess_flags flags) {
    CUmemAccessDesc what{by, flags};
    return cuMemSetAccess(where, bytes, &what, 1);
  }
  static unsigned long long access(CUdeviceptr where, CUmemLocation by) {
    unsigned long long out = 77;
    REQUIRE_OK(cuMemGetAccess(&out, &by, where));
    return out;
  }
  static volatile int& word(CUdeviceptr where) {
    return *reinterpret_cast<volatile int*>(where);
  }
  static int count(int number) {
    REQUIRE_OK(cuCtxSynchronize());
    return fake().counts()[static_cast<std::uint16_t>(number)];
  }
};

} // namespace

BOOST_FIXTURE_TEST_SUITE(memory_handles, handing)

BOOST_AUTO_TEST_CASE(imported_memory_counts_after_its_lenders_end) {
  auto before = free_bytes();
  forged another{said::by(file.get()).foreign()};
  CUmemGenericAllocationHandle got = 0;
  REQUIRE_OK(take(got, another.file.get()));
  BOOST_TEST(free_bytes() == before);
  fake().count_for_others(bytes);
  BOOST_TEST(free_bytes() == before - bytes);
  fake().count_for_others(0);
  REQUIRE_OK(cuMemRelease(got));
  BOOST_TEST(free_bytes() == before);
}

BOOST_AUTO_TEST_CASE(only_shareable_memory_is_exported) {
  int out = -1;
  auto own = create(bytes, CU_MEM_HANDLE_TYPE_NONE);
  auto before = count(placed_share_number);
  CHECK_CODE(cuMemExportToShareableHandle(&out, own, as_file, 0),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuMemExportToShareableHandle(&out, memory, as_file, 1),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuMemExportToShareableHandle(nullptr, memory, as_file, 0),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuMemExportToShareableHandle(&out, memory + 77, as_file, 0),
             CUDA_ERROR_INVALID_VALUE);
  BOOST_TEST(out == -1);
  BOOST_TEST(count(placed_share_number) == before);
  REQUIRE_OK(cuMemRelease(own));
  CHECK_CODE(cuMemExportToShareableHandle(&out, own, as_file, 0),
             CUDA_ERROR_INVALID_VALUE);
  BOOST_TEST((::fcntl(file.get(), F_GETFD) & FD_CLOEXEC) != 0);
  BOOST_TEST(!fake().is_protected());
}

BOOST_AUTO_TEST_CASE(memory_stays_as_long_as_a_descriptor_exists) {
  auto before = free_bytes() + bytes;
  auto destroyed = count(placed_destroy_number);
  auto second = give(memory);
  unique_fd third{::dup(second.get())};
  REQUIRE_OK(cuMemRelease(memory));
  CHECK_CODE(cuMemRelease(memory), CUDA_ERROR_INVALID_VALUE);
  file = {};
  second = {};
  BOOST_TEST(free_bytes() + bytes == before);
  // With a descriptor the memory can be imported again, in this process as
  // well.
  REQUIRE_OK(take(memory, third.get()));
  REQUIRE_OK(cuMemRelease(memory));
  BOOST_TEST(free_bytes() + bytes == before);
  BOOST_TEST(count(placed_destroy_number) == destroyed);
  third = {};
  BOOST_TEST(free_bytes() == before);
  BOOST_TEST(count(placed_destroy_number) == destroyed + 1);
}

BOOST_AUTO_TEST_CASE(memory_is_freed_with_its_last_descriptor) {
  REQUIRE_OK(cuMemRelease(memory));
  auto left = free_bytes();
  file = {};
  CUdeviceptr all = 0;
  REQUIRE_OK(cuMemAlloc(&all, left + bytes));
  REQUIRE_OK(cuMemFree(all));
  REQUIRE_OK(cuCtxSynchronize());
}

BOOST_AUTO_TEST_CASE(memory_of_another_process_is_imported) {
  auto imported = count(placed_import_number);
  auto destroyed = count(placed_destroy_number);
  auto before = free_bytes();
  forged theirs{said::by(file.get()).foreign()};
  CUmemGenericAllocationHandle x = 0;
  REQUIRE_OK(take(x, theirs.file.get()));
  BOOST_TEST(count(placed_import_number) == imported + 1);
  BOOST_TEST(free_bytes() == before); // it counts in the other process
  CUmemAllocationProp what{};
  REQUIRE_OK(cuMemGetAllocationPropertiesFromHandle(&what, x));
  BOOST_TEST(what.type == CU_MEM_ALLOCATION_TYPE_PINNED);
  BOOST_TEST(what.requestedHandleTypes == as_file);
  BOOST_TEST(what.location.id == 0);
  CUdeviceptr at = 0;
  CUmemAccessDesc both_ways{device_zero, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  REQUIRE_OK(cuMemAddressReserve(&at, 2 * bytes, 0, 0, 0));
  CHECK_CODE(cuMemMap(at, granule_bytes, 0, x, 0), CUDA_ERROR_NOT_SUPPORTED);
  REQUIRE_OK(cuMemMap(at, bytes, 0, x, 0));
  REQUIRE_OK(cuMemMap(at + bytes, bytes, 0, x, 0));
  REQUIRE_OK(cuMemSetAccess(at, 2 * bytes, &both_ways, 1));
  REQUIRE_OK(cuMemsetD8(at, 1, bytes));
  REQUIRE_OK(cuMemsetD8(at + bytes, 1, bytes));
  // It is exported by the descriptor with which it was imported.
  auto onward = give(x);
  BOOST_TEST((said::by(onward.get()).at == said::by(theirs.file.get()).at));
  onward = {};
  theirs.file = {};
  REQUIRE_OK(cuMemRelease(x));
  REQUIRE_OK(cuMemUnmap(at, bytes));
  BOOST_TEST(theirs.is_held()); // because it is still mapped
  BOOST_TEST(count(placed_destroy_number) == destroyed);
  REQUIRE_OK(cuMemUnmap(at + bytes, bytes));
  BOOST_TEST(!theirs.is_held());
  BOOST_TEST(count(placed_destroy_number) == destroyed + 1);
  BOOST_TEST(free_bytes() == before);
  REQUIRE_OK(cuMemAddressFree(at, 2 * bytes));
}

BOOST_AUTO_TEST_CASE(a_descriptor_without_memory_is_refused_in_the_program) {
  auto before = count(placed_import_number);
  CUmemGenericAllocationHandle x = 0;
  auto refused = [&](int fd) {
    CHECK_CODE(take(x, fd), CUDA_ERROR_INVALID_VALUE);
  };
  int ends[2];
  BOOST_TEST_REQUIRE(::pipe(ends) == 0);
  unique_fd in{ends[0]}, out{ends[1]};
  unique_fd number{::eventfd(1, 0)}, empty{::memfd_create("empty", 0)};
  for (auto fd :
       {-1, 0x7fff'ffff, in.get(), out.get(), number.get(), empty.get()})
    refused(fd);
  auto good = said::by(file.get()).foreign();
  auto as_bytes = std::as_bytes(std::span{good.at});
  for (auto size : {0, 1, 8, 71})
    refused(forged{as_bytes.first(static_cast<std::size_t>(size))}.file.get());
  std::vector<std::byte> longer(as_bytes.begin(), as_bytes.end());
  longer.resize(4'000, std::byte{7});
  refused(forged{longer}.file.get());
  longer.resize(73);
  refused(forged{longer, SOCK_DGRAM}.file.get());
  CHECK_CODE(
      cuMemImportFromShareableHandle(nullptr, number_of(file.get()), as_file),
      CUDA_ERROR_INVALID_VALUE);
  BOOST_TEST(count(placed_import_number) == before);
}

BOOST_AUTO_TEST_CASE(a_damaged_descriptor_is_refused_in_the_program) {
  auto before = count(placed_import_number);
  auto good = said::by(file.get()).foreign();
  CUmemGenericAllocationHandle x = 0;
  auto refused = [&](const said& bad) {
    CHECK_CODE(take(x, forged{bad}.file.get()), CUDA_ERROR_INVALID_VALUE);
  };
  for (std::size_t i = 0; i < good.at.size(); ++i)
    for (auto bit : {0, 13, 63}) {
      auto bad = good;
      bad.at[i] ^= std::uint64_t{1} << bit;
      refused(bad);
    }
  // These are forged with a correct check.
  refused(good.with(0, good.at[0] + 1));
  refused(good.with(5, 0));
  refused(good.with(5, share_layout{1, 3, 0}.pack()));
  refused(good.with(5, share_layout{0, share_layout::most + 1, 0}.pack()));
  BOOST_TEST(count(placed_import_number) == before);
  // These are the program's own, for memory that it never exported.
  auto own = said::by(file.get());
  refused(own.with(3, own.at[3] + 1));
  refused(own.with(4, own.at[4] + 1));
  refused(own.with(4, 0));
  auto never_given = create(bytes, as_file);
  auto as_if = own.with(3, never_given);
  refused(as_if);
  refused(as_if.with(4, 0));
  REQUIRE_OK(cuMemRelease(never_given));
}

BOOST_AUTO_TEST_CASE(a_pool_and_its_memory_are_shared) {
  CUmemoryPool own = nullptr, shared = nullptr, theirs = nullptr;
  auto types = pool_of(as_file);
  REQUIRE_OK(cuMemPoolCreate(&shared, &types));
  types = pool_of(CU_MEM_HANDLE_TYPE_NONE);
  REQUIRE_OK(cuMemPoolCreate(&own, &types));
  int out = -1;
  CHECK_CODE(cuMemPoolExportToShareableHandle(&out, own, as_file, 0),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuMemPoolExportToShareableHandle(&out, shared, as_file, 1),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuMemPoolExportToShareableHandle(nullptr, shared, as_file, 0),
             CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuMemPoolExportToShareableHandle(&out, shared, as_file, 0));
  unique_fd pool_file{out};
  CUmemGenericAllocationHandle x = 0;
  CHECK_CODE(take(x, pool_file.get()), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuMemPoolImportFromShareableHandle(&theirs, number_of(file.get()),
                                                as_file, 0),
             CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuMemPoolImportFromShareableHandle(
      &theirs, number_of(pool_file.get()), as_file, 0));
  CUdeviceptr at = 0, again = 0;
  CHECK_CODE(cuMemAllocFromPoolAsync(&at, 64, theirs, nullptr),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuDeviceSetMemPool(0, theirs), CUDA_ERROR_INVALID_VALUE);

  REQUIRE_OK(cuMemAllocFromPoolAsync(&at, 1000, own, nullptr));
  CUmemPoolPtrExportData data{};
  CHECK_CODE(cuMemPoolExportPointer(&data, at), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuMemFreeAsync(at, nullptr));
  REQUIRE_OK(cuMemAllocFromPoolAsync(&at, 1000, shared, nullptr));
  REQUIRE_OK(cuMemPoolExportPointer(&data, at));
  std::uint64_t types_of_it = 0;
  REQUIRE_OK(cuPointerGetAttribute(
      &types_of_it, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, at));
  BOOST_TEST(types_of_it == std::uint64_t{as_file});

  CHECK_CODE(cuMemPoolImportPointer(&again, theirs, &data),
             CUDA_ERROR_INVALID_VALUE); // it belongs to this process

  // The same pool with another secret, as another process would have it.
  auto key = said::by(pool_file.get()).at[4];
  std::array<std::uint64_t, 8> words;
  std::memcpy(&words, &data, sizeof(words));
  ++words[1];
  auto give_as_of = [&](std::uint64_t pool) {
    words[7] = XXH3_64bits_withSeed(&words, 56, pool);
    std::memcpy(&data, &words, sizeof(words));
    return cuMemPoolImportPointer(&again, theirs, &data);
  };
  CHECK_CODE(give_as_of(key + 1), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(give_as_of(0), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(give_as_of(key));
  REQUIRE_OK(cuMemsetD8(again, 1, 1000));
  CHECK_CODE(cuMemsetD8(again, 1, 1001), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuIpcCloseMemHandle(again), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(cuMemFreeAsync(again + 8, nullptr), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(cuMemFreeAsync(again, nullptr));
  CHECK_CODE(cuMemFreeAsync(again, nullptr), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(give_as_of(key));
  REQUIRE_OK(cuMemFree(again));
  REQUIRE_OK(cuMemFreeAsync(at, nullptr));
  for (auto each : {own, shared, theirs})
    REQUIRE_OK(cuMemPoolDestroy(each));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_FIXTURE_TEST_SUITE(memory_of_the_host, of_the_host)

BOOST_AUTO_TEST_CASE(the_program_uses_it_at_each_mapping) {
  constexpr auto both = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  auto other = at + 2 * bytes;
  REQUIRE_OK(cuMemMap(other, bytes, 0, memory, 0));
  for (auto each : {at, other})
    REQUIRE_OK(allow(each, host, both));
  BOOST_TEST(word(at) == 0);
  word(at) = 5;
  BOOST_TEST(word(other) == 5);
  BOOST_TEST(access(at, host) == both);
  BOOST_TEST(access(at, device_zero) == 0U);
  REQUIRE_OK(cuMemUnmap(other, bytes));
  BOOST_TEST(word(at) == 5);
}

BOOST_AUTO_TEST_CASE(copies_use_it_as_pinned_memory) {
  int value = 0;
  // Nobody has access yet.
  CHECK_CODE(cuMemcpyDtoH(&value, at, sizeof(value)), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(allow(at, host, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  word(at) = 9;
  REQUIRE_OK(cuMemcpyDtoH(&value, at, sizeof(value)));
  BOOST_TEST(value == 9);
  value = 10;
  REQUIRE_OK(cuMemcpyHtoD(at + 4, &value, sizeof(value)));
  BOOST_TEST(word(at + 4) == 10);
  CHECK_CODE(cuMemcpyDtoH(&value, at + bytes - 2, sizeof(value)),
             CUDA_ERROR_INVALID_VALUE);
  unsigned type = 0;
  REQUIRE_OK(
      cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at + 4));
  BOOST_TEST(type == unsigned{CU_MEMORYTYPE_HOST});
}

BOOST_AUTO_TEST_CASE(it_lives_as_pinned_memory_until_its_last_mapping_ends) {
  constexpr int host_alloc_number = 3, host_free_number = 4,
                host_map_number = 81;
  auto freed = count(host_free_number);
  auto room = free_bytes();
  BOOST_TEST(count(host_alloc_number) > 0);
  BOOST_TEST(count(host_map_number) > 0);
  REQUIRE_OK(cuMemRelease(memory));
  CHECK_CODE(cuMemRelease(memory), CUDA_ERROR_INVALID_VALUE);
  BOOST_TEST(count(host_free_number) == freed);
  REQUIRE_OK(cuMemUnmap(at, bytes));
  BOOST_TEST(count(host_free_number) == freed + 1);
  BOOST_TEST(free_bytes() == room);
}

BOOST_AUTO_TEST_CASE(access_is_checked_as_a_driver_does) {
  constexpr auto both = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  // The host and its node have one access.
  REQUIRE_OK(allow(at, node, both));
  word(at) = 4;
  CUmemGenericAllocationHandle of_node = 0;
  REQUIRE_OK(make(node, CU_MEM_HANDLE_TYPE_NONE, of_node));
  REQUIRE_OK(cuMemMap(at + bytes, bytes, 0, of_node, 0));
  REQUIRE_OK(allow(at + bytes, node, both));
  word(at + bytes) = 3;
  REQUIRE_OK(cuMemUnmap(at + bytes, bytes));
  REQUIRE_OK(cuMemRelease(of_node));
  CHECK_CODE(allow(at, {CU_MEM_LOCATION_TYPE_DEVICE, {99}}, both),
             CUDA_ERROR_INVALID_DEVICE);
  // The host has no access to memory of a device.
  auto on_device = create(bytes, CU_MEM_HANDLE_TYPE_NONE);
  REQUIRE_OK(cuMemMap(at + bytes, bytes, 0, on_device, 0));
  CHECK_CODE(allow(at + bytes, host, both), CUDA_ERROR_NOT_SUPPORTED);
  REQUIRE_OK(allow(at + bytes, host, CU_MEM_ACCESS_FLAGS_PROT_NONE));
  unsigned long long flags = 99;
  REQUIRE_OK(cuMemGetAccess(&flags, &node, at + bytes));
  BOOST_TEST(flags == 0u);
  REQUIRE_OK(cuMemUnmap(at + bytes, bytes));
  REQUIRE_OK(cuMemRelease(on_device));
}

BOOST_AUTO_TEST_CASE(places_are_checked_as_cuda_says) {
  CUmemGenericAllocationHandle made = 0;
  CHECK_CODE(make(host, as_file, made), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(make(node, as_file, made), CUDA_ERROR_NOT_SUPPORTED);
  CHECK_CODE(make({CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, {0}},
                  CU_MEM_HANDLE_TYPE_NONE, made),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(make({CU_MEM_LOCATION_TYPE_HOST_NUMA, {100000}},
                  CU_MEM_HANDLE_TYPE_NONE, made),
             CUDA_ERROR_INVALID_VALUE);
}

BOOST_AUTO_TEST_SUITE_END()
