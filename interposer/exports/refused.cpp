// The entry points that are refused: one stub each, made from the catalogue.
// Without cuda.h, so that the stubs need not know the arguments: in this
// calling convention a function may ignore what it was passed.
#include "interposer/session/refusal.hpp"

// What each class of the catalogue makes of its line here.
#define VGPU_STUB_local(symbol, why)
#define VGPU_STUB_async(symbol, why)
#define VGPU_STUB_create(symbol, why)
#define VGPU_STUB_sync(symbol, why)
#define VGPU_STUB_refused(symbol, why)                                         \
  extern "C" __attribute__((visibility("default"))) int symbol() {             \
    static vgpu::interposer::told_once told;                                   \
    return vgpu::interposer::refuse(#symbol, why, told);                       \
  }

#define VGPU_CALL(symbol, base, version, flavour, served, why)                 \
  VGPU_STUB_##served(symbol, why)
#include "schema/catalogue/catalogue.def"
#undef VGPU_CALL
