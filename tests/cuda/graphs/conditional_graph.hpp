// A graph, and handles for its conditional nodes.
#pragma once

#include "../check.hpp"

using handle = cudaGraphConditionalHandle;

struct graph {
  cudaGraph_t it = nullptr;
  graph() { CHECK(cudaGraphCreate(&it, 0)); }
  ~graph() { cudaGraphDestroy(it); }
  handle condition(unsigned value = 0, unsigned flags = 0) {
    handle h{};
    CHECK(cudaGraphConditionalHandleCreate(&h, it, value, flags));
    return h;
  }
};
