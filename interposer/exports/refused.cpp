// The refused entry points: one stub each, made from the catalogue. This file
// does not include cuda.h, so that it can define the stubs without arguments:
// in this calling convention a function may ignore its arguments.
#include "interposer/session/refusal.hpp"

// These macros make a stub from each refused line of the catalogue, and nothing
// from the others.
#define VGPU_STUB_local(symbol, why)
#define VGPU_STUB_async(symbol, why)
#define VGPU_STUB_create(symbol, why)
#define VGPU_STUB_sync(symbol, why)
#define VGPU_STUB_refused(symbol, why)                                         \
  extern "C" __attribute__((visibility("default"))) int symbol() {             \
    static vgpu::interposer::logged_once logged;                               \
    return vgpu::interposer::refuse(#symbol, why, logged);                     \
  }

#define VGPU_CALL(symbol, base, version, flavour, served, more, why, ...)      \
  VGPU_STUB_##served(symbol, why)
#include "schema/catalogue/catalogue.def"
#undef VGPU_CALL
