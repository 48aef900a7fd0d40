// Shuffles, votes, matches and masks within a warp.
#include <stdio.h>
#include <string.h>

enum { kinds = 14 };

__global__ void run(unsigned out[kinds][32]) {
  unsigned lane = threadIdx.x;
  unsigned all = 0xffffffffu;
  unsigned v = lane * lane + 1;
  out[0][lane] = __shfl_sync(all, v, 5);
  out[1][lane] = __shfl_up_sync(all, v, 3);
  out[2][lane] = __shfl_down_sync(all, v, 7);
  out[3][lane] = __shfl_xor_sync(all, v, 9);
  out[4][lane] = __shfl_sync(all, v, 2, 8);
  out[5][lane] = __all_sync(all, lane < 32);
  out[6][lane] = __any_sync(all, lane == 31);
  out[7][lane] = __ballot_sync(all, lane % 3 == 0);
  out[8][lane] = __match_any_sync(all, lane / 5);
  int same = 0;
  out[9][lane] = __match_all_sync(all, 42, &same) + same;
  out[10][lane] = __popc(__activemask());
  if (lane < 12) // a part of the warp
    out[11][lane] = __shfl_down_sync(0xfffu, v, 1) + __ballot_sync(0xfffu, 1);
  else
    out[11][lane] = __ballot_sync(0xfffff000u, lane & 1);
  __syncwarp();
  double d = 0.5 * lane;
  for (int offset = 16; offset; offset /= 2)
    d += __shfl_xor_sync(all, d, offset);
  out[12][lane] = (unsigned)d;
  // Counts the lower lanes that vote yes, by one bit from each lane.
  unsigned votes = __ballot_sync(all, lane % 4 == 1);
  out[13][lane] = __popc(votes & ((1u << lane) - 1));
}

static unsigned square(unsigned lane) {
  return lane * lane + 1;
}

static unsigned expected(int kind, unsigned lane) {
  unsigned mask = 0;
  switch (kind) {
  case 0:
    return square(5);
  case 1:
    return lane < 3 ? square(lane) : square(lane - 3);
  case 2:
    return lane + 7 > 31 ? square(lane) : square(lane + 7);
  case 3:
    return square(lane ^ 9);
  case 4:
    return square(lane / 8 * 8 + 2);
  case 5:
    return 1;
  case 6:
    return 1;
  case 7:
    return 0x49249249u;
  case 8:
    for (unsigned i = 0; i < 32; ++i)
      if (i / 5 == lane / 5)
        mask |= 1u << i;
    return mask;
  case 9:
    return 0xffffffffu + 1;
  case 10:
    return 32;
  case 11:
    if (lane >= 12)
      return 0xaaaaa000u;
    // Lane 11 would read a lane outside of the mask; it is not compared.
    return square(lane + 1) + 0xfffu;
  case 12:
    return 248;
  default:
    return (lane + 2) / 4;
  }
}

int main() {
  unsigned(*dev)[32];
  unsigned got[kinds][32];
  if (cudaMalloc(&dev, sizeof got) != cudaSuccess)
    return 1;
  run<<<1, 32>>>(dev);
  cudaError_t e = cudaMemcpy(got, dev, sizeof got, cudaMemcpyDeviceToHost);
  if (e != cudaSuccess) {
    printf("%s\n", cudaGetErrorString(e));
    return 1;
  }
  int wrong = 0;
  for (int kind = 0; kind < kinds; ++kind) {
    for (unsigned lane = 0; lane < 32; ++lane) {
      if (kind == 11 && lane == 11)
        continue;
      if (got[kind][lane] != expected(kind, lane)) {
        printf("kind %d lane %u: %x instead of %x\n", kind, lane,
               got[kind][lane], expected(kind, lane));
        ++wrong;
      }
    }
  }
  if (wrong)
    return 1;
  printf("ok\n");
  return 0;
}
