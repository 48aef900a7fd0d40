// CUB on a million elements: algorithms of the whole device, of blocks and of
// warps, compared with the standard library's.
// nvcc: -arch=compute_90
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cub/cub.cuh>
#include <numeric>
#include <vector>

constexpr int n = 1000003; // a prime, so not a multiple of any block size
static int failures = 0;

static void check(cudaError_t e, const char* what) {
  if (e != cudaSuccess) {
    std::printf("%s: %s\n", what, cudaGetErrorString(e));
    std::exit(1);
  }
}

static void expect(bool ok, const char* what) {
  if (!ok) {
    std::printf("%s is wrong\n", what);
    ++failures;
  }
}

template <class T>
struct buffer {
  T* data = nullptr;
  explicit buffer(std::size_t count) {
    check(cudaMalloc(&data, count * sizeof(T)), "cudaMalloc");
  }
  explicit buffer(const std::vector<T>& from) : buffer(from.size()) {
    check(cudaMemcpy(data, from.data(), from.size() * sizeof(T),
                     cudaMemcpyHostToDevice),
          "copy");
  }
  buffer(const buffer&) = delete;
  ~buffer() { cudaFree(data); }
  std::vector<T> read(std::size_t count) const {
    std::vector<T> out(count);
    check(
        cudaMemcpy(out.data(), data, count * sizeof(T), cudaMemcpyDeviceToHost),
        "copy back");
    return out;
  }
};

// Calls f twice, as CUB requires: the first call returns the scratch memory's
// size.
template <class F>
static void run(const char* what, F f) {
  std::size_t bytes = 0;
  check(f(nullptr, bytes), what);
  buffer<char> scratch(bytes);
  check(f(scratch.data, bytes), what);
}

template <class T>
static std::vector<T> numbers(std::uint64_t x) {
  std::vector<T> out(n);
  for (auto& y : out) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    y = static_cast<T>(x);
  }
  return out;
}

static void radix_sorts() {
  auto keys = numbers<std::uint32_t>(88172645463325252ull);
  std::vector<int> order(n);
  std::iota(order.begin(), order.end(), 0);
  buffer<std::uint32_t> in(keys), out(n);
  buffer<int> values(order), sorted_values(n);
  run("radix sort of pairs", [&](void* scratch, std::size_t& bytes) {
    return cub::DeviceRadixSort::SortPairs(scratch, bytes, in.data, out.data,
                                           values.data, sorted_values.data, n);
  });
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return keys[a] < keys[b]; });
  expect(sorted_values.read(n) == order, "radix sort of pairs, 32-bit keys");

  auto wide = numbers<std::int64_t>(88172645463325252ull);
  buffer<std::int64_t> wide_in(wide), wide_out(n);
  run("descending radix sort", [&](void* scratch, std::size_t& bytes) {
    return cub::DeviceRadixSort::SortKeysDescending(
        scratch, bytes, wide_in.data, wide_out.data, n);
  });
  std::sort(wide.begin(), wide.end(), std::greater<>());
  expect(wide_out.read(n) == wide, "descending radix sort of 64-bit keys");
}

// Orders words by decreasing length, and then by the alphabet.
struct word {
  char letters[6];
  std::uint16_t length;
  __host__ __device__ bool operator==(const word& x) const {
    if (length != x.length)
      return false;
    for (int i = 0; i < length; ++i)
      if (letters[i] != x.letters[i])
        return false;
    return true;
  }
};
struct before {
  __host__ __device__ bool operator()(const word& a, const word& b) const {
    if (a.length != b.length)
      return a.length > b.length;
    for (int i = 0; i < a.length; ++i)
      if (a.letters[i] != b.letters[i])
        return a.letters[i] < b.letters[i];
    return false;
  }
};

static void merge_sort() {
  constexpr int count = n / 8; // fewer, because comparisons are slow
  auto bits = numbers<std::uint32_t>(99);
  std::vector<word> words(count);
  for (int i = 0; i < count; ++i) {
    words[i] = {{}, std::uint16_t(bits[i] % 7)};
    for (int k = 0; k < words[i].length; ++k)
      words[i].letters[k] = char('a' + (bits[i] >> (3 + 4 * k)) % 16);
  }
  buffer<word> d(words);
  run("merge sort", [&](void* scratch, std::size_t& bytes) {
    return cub::DeviceMergeSort::StableSortKeys(scratch, bytes, d.data, count,
                                                before());
  });
  std::stable_sort(words.begin(), words.end(), before());
  expect(d.read(count) == words, "merge sort of words");
}

struct larger {
  template <class T>
  __host__ __device__ T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};

static void folds() {
  auto data = numbers<std::int32_t>(7);
  buffer<std::int32_t> in(data), out(n);
  run("scan", [&](void* scratch, std::size_t& bytes) {
    return cub::DeviceScan::InclusiveScan(scratch, bytes, in.data, out.data,
                                          larger(), n);
  });
  std::vector<std::int32_t> highest(n);
  std::inclusive_scan(data.begin(), data.end(), highest.begin(), larger());
  expect(out.read(n) == highest, "scan with a maximum");

  buffer<std::int32_t> least(1);
  buffer<cuda::std::int64_t> where(1);
  run("ArgMin", [&](void* scratch, std::size_t& bytes) {
    return cub::DeviceReduce::ArgMin(scratch, bytes, in.data, least.data,
                                     where.data, std::int64_t{n});
  });
  auto at = std::min_element(data.begin(), data.end());
  expect(where.read(1)[0] == at - data.begin() && least.read(1)[0] == *at,
         "ArgMin");

  std::vector<int> offsets = {0};
  while (offsets.back() < n)
    offsets.push_back(std::min<long long>(
        n, offsets.back() + std::uint32_t(data[offsets.back()]) % 5000));
  int segments = int(offsets.size()) - 1;
  buffer<int> o(offsets);
  buffer<std::int32_t> sums(segments);
  run("segmented sum", [&](void* scratch, std::size_t& bytes) {
    return cub::DeviceSegmentedReduce::Sum(scratch, bytes, in.data, sums.data,
                                           segments, o.data, o.data + 1);
  });
  std::vector<std::int32_t> expected(segments);
  for (int s = 0; s < segments; ++s) {
    std::uint32_t sum = 0;
    for (int i = offsets[s]; i < offsets[s + 1]; ++i)
      sum += std::uint32_t(data[i]);
    expected[s] = std::int32_t(sum);
  }
  expect(sums.read(segments) == expected, "segmented sum");
}

static void runs_and_bins() {
  auto data = numbers<std::uint8_t>(31);
  for (auto& x : data)
    x &= 3;
  buffer<std::uint8_t> in(data), values(n);
  buffer<int> lengths(n), count(1), bins(4);
  run("run lengths", [&](void* scratch, std::size_t& bytes) {
    return cub::DeviceRunLengthEncode::Encode(
        scratch, bytes, in.data, values.data, lengths.data, count.data, n);
  });
  std::vector<int> expected;
  for (int i = 0; i < n; ++i) {
    if (i == 0 || data[i] != data[i - 1])
      expected.push_back(0);
    ++expected.back();
  }
  int found = count.read(1)[0];
  expect(found == int(expected.size()) && lengths.read(found) == expected,
         "run lengths");

  run("histogram", [&](void* scratch, std::size_t& bytes) {
    return cub::DeviceHistogram::HistogramEven(scratch, bytes, in.data,
                                               bins.data, 5, 0, 4, n);
  });
  std::vector<int> tally(4);
  for (auto x : data)
    ++tally[x];
  expect(bins.read(4) == tally, "histogram");

  auto end = std::unique(data.begin(), data.end());
  run("unique", [&](void* scratch, std::size_t& bytes) {
    return cub::DeviceSelect::Unique(scratch, bytes, in.data, values.data,
                                     count.data, n);
  });
  data.erase(end, data.end());
  expect(count.read(1)[0] == int(data.size()) &&
             values.read(data.size()) == data,
         "unique");
}

// Sorts 1024 keys in a block, and sums and scans them on the way.
__global__ void in_a_block(const float* in, float* sorted, float* sums,
                           float* largest_of_warps) {
  using load = cub::BlockLoad<float, 128, 8, cub::BLOCK_LOAD_WARP_TRANSPOSE>;
  using sort = cub::BlockRadixSort<float, 128, 8>;
  using reduce = cub::BlockReduce<float, 128>;
  using of_warp = cub::WarpReduce<float>;
  using store = cub::BlockStore<float, 128, 8, cub::BLOCK_STORE_TRANSPOSE>;
  __shared__ union {
    typename load::TempStorage load_storage;
    typename sort::TempStorage sort_storage;
    typename reduce::TempStorage reduce_storage;
    typename of_warp::TempStorage warp_storage[4];
    typename store::TempStorage store_storage;
  } shared;
  float keys[8];
  load(shared.load_storage).Load(in + blockIdx.x * 1024, keys);
  __syncthreads();
  float sum = reduce(shared.reduce_storage).Sum(keys);
  if (threadIdx.x == 0)
    sums[blockIdx.x] = sum;
  __syncthreads();
  float most =
      of_warp(shared.warp_storage[threadIdx.x / 32]).Reduce(keys[0], larger());
  if (threadIdx.x % 32 == 0)
    largest_of_warps[blockIdx.x * 4 + threadIdx.x / 32] = most;
  __syncthreads();
  sort(shared.sort_storage).Sort(keys);
  __syncthreads();
  store(shared.store_storage).Store(sorted + blockIdx.x * 1024, keys);
}

static void blocks() {
  constexpr int count = 64;
  std::vector<float> data(count * 1024);
  for (int i = 0; i < count * 1024; ++i)
    data[i] = float((i * 7919ll) % 65537 - 32768);
  buffer<float> in(data), out(data.size()), sums(count), most(count * 4);
  in_a_block<<<count, 128>>>(in.data, out.data, sums.data, most.data);
  check(cudaGetLastError(), "blocks");
  std::vector<float> expected(count, 0), most_expected(count * 4);
  for (int b = 0; b < count; ++b) {
    auto begin = data.begin() + b * 1024;
    expected[b] = std::accumulate(begin, begin + 1024, 0.f);
    for (int w = 0; w < 4; ++w) {
      float x = begin[w * 256];
      for (int l = 0; l < 32; ++l)
        x = std::max(x, begin[w * 256 + 8 * l]);
      most_expected[b * 4 + w] = x;
    }
  }
  for (int b = 0; b < count; ++b)
    std::sort(data.begin() + b * 1024, data.begin() + b * 1024 + 1024);
  expect(out.read(data.size()) == data, "block sort");
  expect(sums.read(count) == expected, "block sum");
  expect(most.read(count * 4) == most_expected, "warp maximum");
}

int main() {
  radix_sorts();
  merge_sort();
  folds();
  runs_and_bins();
  blocks();
  if (failures != 0)
    return 1;
  std::printf("ok\n");
}
