#include "interposer/stream/own_stream.hpp"

#include "interposer/session/on_occasion.hpp"
#include "interposer/session/process.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace vgpu::interposer {

namespace {

/// Holds a thread's own streams, by context. The streams of a context that has
/// ended are retired already.
class own_streams : public thread_streams {
public:
  ~own_streams() override {
    if (process::now() != phase::running)
      return;
    for (auto& x : all_)
      if (x.context_id == x.in->id.load())
        retire_stream(*x.made);
  }

  stream& of(context& in) {
    auto id = in.id.load();
    for (auto& x : all_)
      if (x.in == &in && x.context_id == id)
        return *x.made;
    auto made =
        on_occasion<occasion::first_use>([&] { return make_stream(in, 0, 0); });
    all_.push_back({&in, id, std::move(made)});
    return *all_.back().made;
  }

private:
  struct entry {
    context* in;
    std::uint64_t context_id;
    std::unique_ptr<stream> made;
  };

  std::vector<entry> all_;
};

} // namespace

stream& own_stream(context& x) {
  auto& mine = streams_of_thread();
  if (mine == nullptr)
    mine = on_occasion<occasion::first_use>(
        [] { return std::make_unique<own_streams>(); });
  return static_cast<own_streams&>(*mine).of(x);
}

} // namespace vgpu::interposer
