// Text as bytes: upper case, word count, and search, without atomics on bytes.
#include <cctype>
#include <cstdio>
#include <cstring>
#include <string>

__global__ void upper(char* s, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && s[i] >= 'a' && s[i] <= 'z')
    s[i] -= 32;
}

__global__ void count_words(const char* s, int n, int* words) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  bool start = i < n && s[i] != ' ' && (i == 0 || s[i - 1] == ' ');
  int here = __syncthreads_count(start);
  if (threadIdx.x == 0)
    atomicAdd(words, here);
}

__global__ void find(const char* s, int n, const char* pattern, int m,
                     int* first) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i + m > n)
    return;
  for (int k = 0; k < m; ++k)
    if (s[i + k] != pattern[k])
      return;
  atomicMin(first, i);
}

__global__ void sum_signed(const signed char* s, int n, int* sum) {
  int part = 0;
  for (int i = threadIdx.x; i < n / 4; i += blockDim.x) {
    char4 four = reinterpret_cast<const char4*>(s)[i];
    part += four.x + four.y + four.z + four.w;
  }
  atomicAdd(sum, part);
}

int main() {
  std::string text;
  for (int i = 0; i < 500; ++i)
    text += i % 7 ? "the quick brown fox " : "jumps over\xe9 lazy ";
  text += "needle";
  while (text.size() % 4)
    text += '!';
  int n = static_cast<int>(text.size());
  char* s;
  char* pattern;
  int* results;
  int got[3] = {0, 1 << 30, 0};
  if (cudaMalloc(&s, n) || cudaMalloc(&pattern, 6) ||
      cudaMalloc(&results, sizeof got))
    return 1;
  cudaMemcpy(s, text.data(), n, cudaMemcpyHostToDevice);
  cudaMemcpy(pattern, "NEEDLE", 6, cudaMemcpyHostToDevice);
  cudaMemcpy(results, got, sizeof got, cudaMemcpyHostToDevice);
  int blocks = (n + 191) / 192;
  upper<<<blocks, 192>>>(s, n);
  count_words<<<blocks, 192>>>(s, n, results);
  find<<<blocks, 192>>>(s, n, pattern, 6, results + 1);
  sum_signed<<<1, 64>>>(reinterpret_cast<signed char*>(s), n, results + 2);
  std::string back(n, 0);
  cudaMemcpy(&back[0], s, n, cudaMemcpyDeviceToHost);
  if (cudaMemcpy(got, results, sizeof got, cudaMemcpyDeviceToHost))
    return 1;

  int words = 1, sum = 0;
  for (int i = 0; i < 500; ++i)
    words += i % 7 ? 4 : 3;
  for (char& c : text) {
    if (c >= 'a' && c <= 'z')
      c = static_cast<char>(c - 32);
    sum += static_cast<signed char>(c);
  }
  int position = static_cast<int>(text.find("NEEDLE"));
  if (back != text || got[0] != words || got[1] != position || got[2] != sum) {
    std::printf("%d words of %d, found at %d of %d, sum %d of %d, text %s\n",
                got[0], words, got[1], position, got[2], sum,
                back == text ? "right" : "wrong");
    return 1;
  }
  std::printf("ok\n");
}
