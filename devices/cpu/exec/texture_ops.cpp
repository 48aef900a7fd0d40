// Textures and surfaces. Operands and results go through the warp's scratch
// memory: "texture.put" and "texture.get" surround each operation, and no other
// instruction comes between.
#include "devices/cpu/run/texture_sampler.hpp"

#include <atomic>

#include "devices/cpu/exec/begin.hpp"
#include "devices/cpu/exec/spaces.inl"

inline u64* slot(warp& w, unsigned i) {
  return reinterpret_cast<u64*>(w.scratch()) + i * lanes;
}

template <class T>
const instr* put(warp& w, const instr* in) {
  auto a = reg<T>(w, in, fa);
  auto to = slot(w, u32(in->imm));
  for (auto l = 0u; l < lanes; ++l)
    to[l] = a[l];
  return in + 1;
}

template <class T>
const instr* get(warp& w, const instr* in) {
  auto d = reg<T>(w, in, fd);
  auto from = slot(w, u32(in->imm));
  each_lane(w.mask, [&](unsigned l) { d[l] = T(from[l]); });
  return in + 1;
}

// Finds objects by their values. Lanes mostly share one object.
class finder {
public:
  explicit finder(warp& w)
      : table_{static_cast<const textured_grid&>(w.blk.in).textures.get()} {}

  const texture* find(u64 value) {
    if (found_ == nullptr || value != value_) {
      auto at = table_ == nullptr ? texture_table::const_iterator{}
                                  : table_->find(value);
      if (table_ == nullptr || at == table_->end())
        return nullptr;
      found_ = at->second.get();
      value_ = value;
    }
    return found_;
  }

private:
  const texture_table* table_;
  u64 value_ = 0;
  const texture* found_ = nullptr;
};

inline f32 as_float(u64 x) {
  return std::bit_cast<f32>(u32(x));
}

// -- textures -----------------------------------------------------------------

inline texture_query query_of(warp& w, unsigned l, const texture_op& how) {
  texture_query q;
  q.how = how;
  auto first = slot_coordinate;
  if (has_layer(how.shape)) {
    q.layer = s64{u32(slot(w, first)[l])};
    ++first;
  }
  auto count = coordinates_of(how.shape);
  for (auto i = 0u; i < count; ++i) {
    auto bits = slot(w, first + i)[l];
    q.at[i] = as_float(bits);
    q.element[i] = s32(u32(bits));
  }
  if (how.kind == lookup::level)
    q.level = how.integer ? f32(s32(u32(slot(w, slot_level)[l])))
                          : as_float(slot(w, slot_level)[l]);
  if (how.kind == lookup::gradient)
    for (auto i = 0u; i < count; ++i) {
      q.dx[i] = as_float(slot(w, slot_gradient + i)[l]);
      q.dy[i] = as_float(slot(w, slot_gradient + 3 + i)[l]);
    }
  return q;
}

enum class result_form { whole, half, halves };

template <result_form Form>
const instr* look(warp& w, const instr* in) {
  auto how = texture_op::unpack(in->imm);
  auto objects = finder{w};
  auto half_of = [](u32 bits) {
    return u64{
        double_to_half(f64{std::bit_cast<f32>(bits)}, rounding::nearest)};
  };
  for (auto m = w.mask; m != 0; m &= m - 1) {
    auto l = u32(__builtin_ctz(m));
    auto value = slot(w, slot_object)[l];
    auto x = objects.find(value);
    // A value that names no object reads as zeros, as on an H200.
    u32 out[4] = {};
    if (x != nullptr &&
        !look_up(*w.blk.in.memory, *x, query_of(w, l, how), out))
      return w.fail(CUDA_ERROR_ILLEGAL_ADDRESS, in,
                    "the texture's memory was freed");
    for (auto c = 0u; c < 4; ++c)
      if constexpr (Form == result_form::whole)
        slot(w, slot_value + c)[l] = out[c];
      else if constexpr (Form == result_form::half)
        slot(w, slot_value + c)[l] = half_of(out[c]);
      else if (c % 2 == 0)
        slot(w, slot_value + c / 2)[l] = half_of(out[c]) | half_of(out[c + 1])
                                                               << 16;
  }
  return in + 1;
}

// Returns the data type as a number (PTX ISA, "Channel Data Type and Channel
// Order Fields").
inline u32 data_type(const texture& x) {
  auto scaled = x.real && !x.surface;
  switch (x.of) {
  case channel::s8:
    return scaled ? 0x10d0 : 0x10d7;
  case channel::s16:
    return scaled ? 0x10d1 : 0x10d8;
  case channel::s32:
    return 0x10d9;
  case channel::u8:
    return scaled ? 0x10d2 : 0x10da;
  case channel::u16:
    return scaled ? 0x10d3 : 0x10db;
  case channel::u32:
    return 0x10dc;
  case channel::f16:
    return 0x10dd;
  default:
    return 0x10de;
  }
}

inline u32 address_mode(texture::border x) {
  switch (x) {
  case texture::border::wrap:
    return 0;
  case texture::border::mirror:
    return 1;
  case texture::border::clamp:
    return 3; // to the edge
  default:
    return 4;
  }
}

inline u32 fact_of(const texture& x, texture_fact what, u32 level) {
  auto& l = x.levels[std::min<std::size_t>(level, x.levels.size() - 1)];
  switch (what) {
  case texture_fact::width:
    return u32(l.width);
  case texture_fact::height:
    return u32(l.height);
  case texture_fact::depth:
    return x.layered || x.cubemap ? 1 : u32(l.depth);
  case texture_fact::array_size:
    return x.cubemap ? u32(l.depth / 6) : x.layered ? u32(l.depth) : 1;
  case texture_fact::levels:
    return u32(x.levels.size());
  case texture_fact::samples:
    return 1;
  case texture_fact::data_type:
    return data_type(x);
  case texture_fact::order:
    return x.channels == 1 ? 0x10b0 : x.channels == 2 ? 0x10b2 : 0x10b5;
  case texture_fact::normalized:
    return x.normalized ? 1 : 0;
  case texture_fact::filter:
    return x.filtered ? 1 : 0;
  case texture_fact::address_x:
    return address_mode(x.outside[0]);
  case texture_fact::address_y:
    return address_mode(x.outside[1]);
  case texture_fact::address_z:
    return address_mode(x.outside[2]);
  default:
    return 0;
  }
}

inline const instr* ask(warp& w, const instr* in) {
  auto objects = finder{w};
  auto value = reg<u64>(w, in, fa);
  auto level = reg<u32>(w, in, fb);
  auto d = reg<u32>(w, in, fd);
  for (auto m = w.mask; m != 0; m &= m - 1) {
    auto l = u32(__builtin_ctz(m));
    auto x = objects.find(value[l]);
    d[l] = x == nullptr ? 0 : fact_of(*x, texture_fact(in->imm), level[l]);
  }
  return in + 1;
}

// -- surfaces -----------------------------------------------------------------

// The place of a lane's element. It is null where the element lies outside and
// nothing is done.
struct surface_place {
  std::byte* at = nullptr;
  CUresult error = CUDA_SUCCESS;
};

// Returns the object that a value without an object stands for.
inline const texture& no_surface() {
  static const auto nothing = [] {
    texture out;
    out.levels.push_back({0, 0, 0, 0, 0, 0});
    return out;
  }();
  return nothing;
}

inline surface_place place_in(warp& w, unsigned l, const texture& x,
                              const texture_op& how) {
  auto& level = x.levels.front();
  auto width = how.formatted ? s64{x.element} : s64{how.bytes} * how.values;
  auto row = level.width * s64{x.element};
  auto next = slot_coordinate;
  auto coordinate = [&] { return s64{s32(u32(slot(w, next++)[l]))}; };
  s64 place[3] = {0, 0, 0};
  if (has_layer(how.shape))
    place[2] = coordinate();
  for (auto i = 0u; i < coordinates_of(how.shape); ++i)
    place[i] = coordinate();
  if (how.formatted)
    place[0] *= s64{x.element};
  const s64 most[3] = {row - width, level.height - 1, level.depth - 1};
  auto inside = most[0] >= 0;
  for (auto i = 0u; i < 3; ++i) {
    inside = inside && place[i] >= 0 && place[i] <= most[i];
    if (how.beyond == outside::clamp && most[i] >= 0)
      place[i] = std::clamp<s64>(place[i], 0, most[i]);
  }
  if (!inside && (how.beyond != outside::clamp || most[0] < 0))
    return {nullptr, how.beyond == outside::trap ? CUDA_ERROR_ILLEGAL_ADDRESS
                                                 : CUDA_SUCCESS};
  if (place[0] % width != 0 && !how.formatted)
    return {nullptr, CUDA_ERROR_MISALIGNED_ADDRESS};
  auto at = level.at + u64(place[0]) + u64(place[1]) * level.pitch +
            u64(place[2]) * level.slice;
  if (!w.blk.in.memory->usable(at, u64(width)))
    return {nullptr, CUDA_ERROR_ILLEGAL_ADDRESS};
  return {reinterpret_cast<std::byte*>(at), CUDA_SUCCESS};
}

// Calls f(lane, object, place) for each lane. The place is empty where the
// element lies outside.
template <class F>
const instr* each_place(warp& w, const instr* in, F f) {
  auto how = texture_op::unpack(in->imm);
  auto objects = finder{w};
  for (auto m = w.mask; m != 0; m &= m - 1) {
    auto l = u32(__builtin_ctz(m));
    auto value = slot(w, slot_object)[l];
    auto found = objects.find(value);
    auto& x = found == nullptr ? no_surface() : *found;
    auto place = place_in(w, l, x, how);
    if (place.error != CUDA_SUCCESS)
      return w.fail(place.error, in,
                    place.error == CUDA_ERROR_ILLEGAL_ADDRESS
                        ? "an access outside of its surface"
                        : "a surface's element is not accessed as a whole");
    f(l, x, how, place.at);
  }
  return in + 1;
}

inline const instr* load_surface(warp& w, const instr* in) {
  return each_place(w, in,
                    [&](unsigned l, const texture&, const texture_op& how,
                        const std::byte* at) {
                      for (auto i = 0u; i < how.values; ++i) {
                        auto x = u64{0};
                        if (at != nullptr)
                          std::memcpy(&x, at + i * how.bytes, how.bytes);
                        slot(w, slot_value + i)[l] = x;
                      }
                    });
}

// Converts a register's value to the surface's format.
inline u32 converted(channel of, u32 bits) {
  switch (of) {
  case channel::f16:
    return double_to_half(f64{std::bit_cast<f32>(bits)}, rounding::nearest);
  case channel::u8:
    return std::min(bits, 0xffu);
  case channel::u16:
    return std::min(bits, 0xffffu);
  case channel::s8:
    return u32(std::clamp(s32(bits), -128, 127));
  case channel::s16:
    return u32(std::clamp(s32(bits), -32768, 32767));
  default:
    return bits;
  }
}

inline const instr* store_surface(warp& w, const instr* in) {
  return each_place(
      w, in,
      [&](unsigned l, const texture& x, const texture_op& how, std::byte* at) {
        if (at == nullptr)
          return;
        auto bytes = how.formatted ? bytes_of(x.of) : u32{how.bytes};
        auto count = how.formatted ? std::min(u32{how.values}, x.channels)
                                   : u32{how.values};
        for (auto i = 0u; i < count; ++i) {
          auto value = slot(w, slot_value + i)[l];
          if (how.formatted)
            value = converted(x.of, u32(value));
          std::memcpy(at + i * bytes, &value, bytes);
        }
      });
}

template <class T>
void combine(std::byte* at, surface_atomic what, T b) {
  using S = std::make_signed_t<T>;
  auto word = std::atomic_ref<T>{*reinterpret_cast<T*>(at)};
  auto next = [&](T a) -> T {
    switch (what) {
    case surface_atomic::add:
      return a + b;
    case surface_atomic::min_signed:
      return T(std::min(S(a), S(b)));
    case surface_atomic::min_unsigned:
      return std::min(a, b);
    case surface_atomic::max_signed:
      return T(std::max(S(a), S(b)));
    case surface_atomic::max_unsigned:
      return std::max(a, b);
    case surface_atomic::bit_and:
      return a & b;
    default:
      return a | b;
    }
  };
  auto old = word.load();
  while (!word.compare_exchange_weak(old, next(old)))
    ;
}

inline const instr* reduce_surface(warp& w, const instr* in) {
  return each_place(
      w, in,
      [&](unsigned l, const texture&, const texture_op& how, std::byte* at) {
        auto b = slot(w, slot_value)[l];
        if (at == nullptr || reinterpret_cast<u64>(at) % how.bytes != 0)
          return;
        if (how.bytes == 8)
          combine<u64>(at, how.atomic, b);
        else
          combine<u32>(at, how.atomic, u32(b));
      });
}

static const op_entry ops[] = {
    op_entry{"texture.put.2", &put<u16>, ".2"},
    op_entry{"texture.put.4", &put<u32>, ".4"},
    op_entry{"texture.put.8", &put<u64>, ".8"},
    op_entry{"texture.get.2", &get<u16>, "B"},
    op_entry{"texture.get.4", &get<u32>, "D"},
    op_entry{"texture.get.8", &get<u64>, "H"},
    op_entry{"texture.look", &look<result_form::whole>, ""},
    op_entry{"texture.look.f16", &look<result_form::half>, ""},
    op_entry{"texture.look.f16x2", &look<result_form::halves>, ""},
    op_entry{"texture.query", &ask, "D84"},
    op_entry{"texture.suld", &load_surface, ""},
    op_entry{"texture.sust", &store_surface, ""},
    op_entry{"texture.sured", &reduce_surface, ""},
};

#define VGPU_PART texture_ops
#include "devices/cpu/exec/end.hpp"
