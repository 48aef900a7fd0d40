#include "devices/nvidia/memory/memory_kernels.hpp"

namespace vgpu::device::nvidia {

// fingerprint: each thread reads 32 vectors of 16 bytes, 4096 bytes apart.
// Their two halves go through two chains of xor, multiply and shift. Each step
// is one-to-one, so a change of a single word is never lost. Without the shift,
// changes of only the highest bits, as in negated numbers, would cancel each
// other out. The results of the threads are mixed once more and added up.
//
// gather: a block copies its piece by vectors of 16 bytes, or by bytes where
// address or size is no multiple of that.
const char* const memory_kernels_ptx = R"(
.version 7.0
.target sm_70
.address_size 64

.visible .entry fingerprint(.param .u64 list, .param .u64 out)
{
  .reg .pred %p;
  .reg .b32 %lane, %part, %which, %place, %left;
  .reg .b64 %list, %out, %at, %x, %y, %a, %b, %s, %offset;

  mov.u32 %lane, %tid.x;
  mov.u32 %part, %ctaid.x;
  mov.u32 %which, %ctaid.y;
  ld.param.u64 %list, [list];
  ld.param.u64 %out, [out];
  cvta.to.global.u64 %list, %list;
  cvta.to.global.u64 %out, %out;
  mul.wide.u32 %offset, %which, 8;
  add.u64 %list, %list, %offset;
  ld.global.u64 %at, [%list];
  cvta.to.global.u64 %at, %at;
  mul.wide.u32 %offset, %part, 131072;
  add.u64 %at, %at, %offset;
  mul.wide.u32 %offset, %lane, 16;
  add.u64 %at, %at, %offset;

  mad.lo.u32 %place, %part, 8192, %lane;
  cvt.u64.u32 %a, %place;
  mad.lo.u64 %a, %a, 0x9e3779b97f4a7c15, 0x165667b19e3779f9;
  xor.b64 %b, %a, 0x27d4eb2f165667c5;
  mov.u32 %left, 32;
next:
  ld.global.v2.u64 {%x, %y}, [%at];
  xor.b64 %a, %a, %x;
  mul.lo.u64 %a, %a, 0x9fb21c651e98df25;
  shr.u64 %s, %a, 32;
  xor.b64 %a, %a, %s;
  xor.b64 %b, %b, %y;
  mul.lo.u64 %b, %b, 0xc2b2ae3d27d4eb4f;
  shr.u64 %s, %b, 29;
  xor.b64 %b, %b, %s;
  add.u64 %at, %at, 4096;
  sub.u32 %left, %left, 1;
  setp.ne.u32 %p, %left, 0;
  @%p bra next;

  add.u64 %b, %b, %a;
  mul.lo.u64 %a, %a, 0xff51afd7ed558ccd;
  shr.u64 %s, %a, 33;
  xor.b64 %a, %a, %s;
  mul.lo.u64 %a, %a, 0xc4ceb9fe1a85ec53;
  mul.lo.u64 %b, %b, 0xd6e8feb86659fd93;
  shr.u64 %s, %b, 32;
  xor.b64 %b, %b, %s;
  mul.lo.u64 %b, %b, 0xa0761d6478bd642f;
  mul.wide.u32 %offset, %which, 16;
  add.u64 %out, %out, %offset;
  red.global.add.u64 [%out], %a;
  red.global.add.u64 [%out+8], %b;
  ret;
}

.visible .entry gather(.param .u64 list, .param .u64 out)
{
  .reg .pred %p;
  .reg .b16 %byte;
  .reg .b32 %lane, %which, %bytes, %place, %at, %odd;
  .reg .b64 %list, %out, %from, %to, %x, %y, %offset;

  mov.u32 %lane, %tid.x;
  mov.u32 %which, %ctaid.x;
  ld.param.u64 %list, [list];
  ld.param.u64 %out, [out];
  cvta.to.global.u64 %list, %list;
  cvta.to.global.u64 %out, %out;
  mul.wide.u32 %offset, %which, 16;
  add.u64 %list, %list, %offset;
  ld.global.u64 %from, [%list];
  ld.global.v2.u32 {%bytes, %place}, [%list+8];
  cvta.to.global.u64 %from, %from;
  cvt.u64.u32 %offset, %place;
  add.u64 %out, %out, %offset;
  cvt.u32.u64 %odd, %from;
  or.b32 %odd, %odd, %bytes;
  and.b32 %odd, %odd, 15;
  setp.ne.u32 %p, %odd, 0;
  mov.u32 %at, %lane;
  @%p bra bytewise;
  shl.b32 %at, %lane, 4;
vectors:
  setp.ge.u32 %p, %at, %bytes;
  @%p bra done;
  cvt.u64.u32 %offset, %at;
  add.u64 %to, %out, %offset;
  add.u64 %offset, %from, %offset;
  ld.global.v2.u64 {%x, %y}, [%offset];
  st.global.v2.u64 [%to], {%x, %y};
  add.u32 %at, %at, 2048;
  bra vectors;
bytewise:
  setp.ge.u32 %p, %at, %bytes;
  @%p bra done;
  cvt.u64.u32 %offset, %at;
  add.u64 %to, %out, %offset;
  add.u64 %offset, %from, %offset;
  ld.global.u8 %byte, [%offset];
  st.global.u8 [%to], %byte;
  add.u32 %at, %at, 128;
  bra bytewise;
done:
  ret;
}
)";

} // namespace vgpu::device::nvidia
