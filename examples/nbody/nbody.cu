// Simulates bodies that attract each other, and computes every pair in every
// step.
#include "../example.hpp"

#include <cmath>

constexpr int block_size = 128;
constexpr float softening = 0.01f;
constexpr float time_step = 0.001f;

__global__ void advance(const float4* from, float4* to, float4* velocity,
                        int n) {
  __shared__ float4 others[block_size];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float4 self = i < n ? from[i] : make_float4(0, 0, 0, 0);
  float3 pull = make_float3(0, 0, 0);
  for (int first = 0; first < n; first += block_size) {
    int j = first + threadIdx.x;
    others[threadIdx.x] = j < n ? from[j] : make_float4(0, 0, 0, 0);
    __syncthreads();
    for (int k = 0; k < block_size; ++k) {
      float4 other = others[k];
      float dx = other.x - self.x;
      float dy = other.y - self.y;
      float dz = other.z - self.z;
      float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + softening);
      float strength = other.w * inverse * inverse * inverse;
      pull.x += dx * strength;
      pull.y += dy * strength;
      pull.z += dz * strength;
    }
    __syncthreads();
  }
  if (i < n) {
    float4 v = velocity[i];
    v.x += pull.x * time_step;
    v.y += pull.y * time_step;
    v.z += pull.z * time_step;
    velocity[i] = v;
    to[i] = make_float4(self.x + v.x * time_step, self.y + v.y * time_step,
                        self.z + v.z * time_step, self.w);
  }
}

struct body {
  double x, y, z, mass, vx, vy, vz;
};

static void advance_on_host(std::vector<body>& bodies) {
  for (auto& self : bodies) {
    double px = 0, py = 0, pz = 0;
    for (const auto& other : bodies) {
      double dx = other.x - self.x;
      double dy = other.y - self.y;
      double dz = other.z - self.z;
      double squared = dx * dx + dy * dy + dz * dz + softening;
      double strength = other.mass / (squared * std::sqrt(squared));
      px += dx * strength;
      py += dy * strength;
      pz += dz * strength;
    }
    self.vx += px * time_step;
    self.vy += py * time_step;
    self.vz += pz * time_step;
  }
  for (auto& self : bodies) {
    self.x += self.vx * time_step;
    self.y += self.vy * time_step;
    self.z += self.vz * time_step;
  }
}

int main(int argc, char** argv) {
  long count = 1000, steps = 5;
  parse_arguments(argc, argv, "nbody", "Simulates bodies under gravity.",
                  {{"bodies", &count, 1, 1 << 18, "how many"},
                   {"steps", &steps, 1, 100000, "how many steps"}});
  int n = static_cast<int>(count);

  std::vector<float4> position(n), still(n, make_float4(0, 0, 0, 0));
  std::vector<body> bodies(n);
  unsigned state = 1;
  auto random = [&state] {
    state = state * 1664525u + 1013904223u;
    return static_cast<float>(state >> 8) / 16777216.0f;
  };
  for (int i = 0; i < n; ++i) {
    float4 p;
    p.x = random();
    p.y = random();
    p.z = random();
    p.w = 0.5f + random();
    position[i] = p;
    bodies[i] = {p.x, p.y, p.z, p.w, 0, 0, 0};
  }

  size_t bytes = n * sizeof(float4);
  float4 *from, *to, *velocity;
  check(cudaMalloc(&from, bytes), "cudaMalloc");
  check(cudaMalloc(&to, bytes), "cudaMalloc");
  check(cudaMalloc(&velocity, bytes), "cudaMalloc");
  check(cudaMemcpy(from, position.data(), bytes, cudaMemcpyHostToDevice),
        "copy positions");
  check(cudaMemcpy(velocity, still.data(), bytes, cudaMemcpyHostToDevice),
        "copy velocities");
  for (long step = 0; step < steps; ++step) {
    advance<<<(n + block_size - 1) / block_size, block_size>>>(from, to,
                                                               velocity, n);
    std::swap(from, to);
  }
  check(cudaGetLastError(), "launch of advance");
  check(cudaMemcpy(position.data(), from, bytes, cudaMemcpyDeviceToHost),
        "copy positions back");
  check(cudaFree(from), "cudaFree");
  check(cudaFree(to), "cudaFree");
  check(cudaFree(velocity), "cudaFree");

  for (long step = 0; step < steps; ++step)
    advance_on_host(bodies);
  double worst = 0;
  for (int i = 0; i < n; ++i) {
    worst = std::fmax(worst, std::fabs(position[i].x - bodies[i].x));
    worst = std::fmax(worst, std::fabs(position[i].y - bodies[i].y));
    worst = std::fmax(worst, std::fabs(position[i].z - bodies[i].z));
  }
  // Compares single with double precision. The bodies fill a cube of side 1.
  bool right = worst < 1e-5 * static_cast<double>(steps);
  std::printf("nbody: %d bodies, %ld steps, within %.1e of the host, %s\n", n,
              steps, worst, right ? "right" : "WRONG");
  return right ? 0 : 1;
}
