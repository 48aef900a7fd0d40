#include "tests/unit/interposer/fake_client.hpp"

#include "schema/base/condition_handles.hpp"

#include "schema/base/endpoints.hpp"
#include "schema/log/work_times.hpp"
#include "schema/wire/data.capnp.h"
#include "schema/wire/guest.capnp.h"

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace vgpu::test {

struct fake_client::connection {
  unique_fd socket;
  unique_fd doorbell;
  std::optional<session_area> area;
  std::optional<log_reader> reader;
  bool host_tried = false;
};

namespace {

/// The attributes of an H200, by CUdevice_attribute from 1 on. The runtime
/// reads nearly all of them.
constexpr std::array attributes = {
    1024,   1024,  1024,       64,        2147483647, 65535,    65535, 49152,
    65536,  32,    2147483647, 65536,     1980000,    512,      1,     132,
    0,      0,     1,          0,         131072,     131072,   65536, 16384,
    16384,  16384, 32768,      32768,     2048,       512,      1,     1,
    0,      6,     0,          3201000,   6016,       62914560, 2048,  3,
    1,      32768, 2048,       1,         32768,      32768,    8192,  8192,
    32768,  0,     32,         32768,     32768,      2046,     32768, 131072,
    65536,  16384, 16384,      16384,     32768,      2048,     32768, 32768,
    2048,   32768, 32768,      2046,      268435456,  131072,   65000, 2097120,
    32768,  32768, 9,          0,         32768,      1,        1,     1,
    233472, 65536, 1,          0,         0,          0,        2,     0,
    1,      1,     1,          0,         0,          0,        1,     1,
    232448, 0,     1,          0,         0,          1,        1,     0,
    0,      32,    1,          39321600,  134217728,  1,        1024,  1,
    1,      1,     1,          1,         1,          100,      9,     1,
    1,      1,     1,          1,         1,          4,        1,     1,
    1,      0,     -1,         0,         0,          0,        0,     0,
    0,      0,     590680286,  415174878, 1,          1,        0,     1,
    1,      0,     0};

void describe(wire::DeviceFacts::Builder to, std::uint64_t quota,
              bool tensor_maps) {
  to.setName("Fake GPU");
  std::array<kj::byte, 16> uuid{};
  for (std::size_t i = 0; i < uuid.size(); ++i)
    uuid[i] = static_cast<kj::byte>(i + 1);
  to.setUuid(kj::arrayPtr(uuid.data(), uuid.size()));
  to.setTotalMemory(4 * quota);
  auto list = to.initAttributes(static_cast<unsigned>(attributes.size()));
  for (unsigned i = 0; i < attributes.size(); ++i) {
    list[i].setKey(static_cast<int>(i) + 1);
    list[i].setValue(attributes[i]);
  }
  if (!tensor_maps)
    list[CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED - 1].setValue(0);
}

std::vector<std::byte> module_facts() {
  struct parameter {
    std::uint32_t offset, size;
  };
  constexpr std::array mixed = {parameter{0, 1}, parameter{2, 2},
                                parameter{8, 40}, parameter{0x30, 8},
                                parameter{0x38, 4}};
  capnp::MallocMessageBuilder message;
  auto root = message.initRoot<wire::ModuleFacts>();
  constexpr std::array mapped = {parameter{0, 4}, parameter{64, 128},
                                 parameter{192, 8}};
  auto kernels = root.initKernels(3);
  auto set = [&](unsigned kernel, const char* name, const auto& parameters) {
    kernels[kernel].setName(name);
    auto list = kernels[kernel].initParameters(
        static_cast<unsigned>(parameters.size()));
    for (unsigned i = 0; i < parameters.size(); ++i) {
      list[i].setOffset(parameters[i].offset);
      list[i].setSize(parameters[i].size);
    }
  };
  set(0, "none", std::span<const parameter>{});
  set(1, "mixed", mixed);
  set(2, "mapped", mapped);
  for (auto k : kernels) {
    auto a = k.initAttributes(2);
    a[0].setKey(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    a[0].setValue(512);
    a[1].setKey(CU_FUNC_ATTRIBUTE_NUM_REGS);
    a[1].setValue(32);
  }
  auto globals = root.initGlobals(1);
  globals[0].setName("table");
  globals[0].setAddress(first_window + device_placed_offset);
  globals[0].setBytes(16);
  auto words = capnp::messageToFlatArray(message);
  auto bytes = std::as_bytes(std::span{words.begin(), words.size()});
  return {bytes.begin(), bytes.end()};
}

} // namespace

fake_client::fake_client(const std::string& manager, fake_options options)
    : options_(options),
      listener_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  auto name = client_socket_name(manager, chosen_transport());
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  auto bytes =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), bytes) !=
          0 ||
      ::listen(listener_.get(), 64) != 0)
    throw std::runtime_error{"the fake client cannot listen"};
  thread_ = std::jthread{[this](std::stop_token stop) { run(stop); }};
}

fake_client::~fake_client() {
  resume();
  thread_.request_stop();
}

void fake_client::pause() {
  std::lock_guard guard{mutex_};
  paused_ = true;
}
void fake_client::resume() {
  std::lock_guard guard{mutex_};
  paused_ = false;
}
void fake_client::fail_with(CUresult code) {
  std::lock_guard guard{mutex_};
  failure_ = code;
}
void fake_client::print(std::string text) {
  std::lock_guard guard{mutex_};
  text_ += text;
}
void fake_client::hang_up() {
  std::lock_guard guard{mutex_};
  hang_up_ = true;
}
std::vector<seen_launch> fake_client::launches() {
  std::lock_guard guard{mutex_};
  return launches_;
}
std::map<std::uint16_t, int> fake_client::counts() {
  std::lock_guard guard{mutex_};
  return counts_;
}

void fake_client::run(std::stop_token stop) {
  while (!stop.stop_requested()) {
    pollfd fds[2] = {{listener_.get(), POLLIN, 0},
                     {open_ ? open_->socket.get() : -1, POLLRDHUP, 0}};
    auto busy = open_ && serve_some();
    ::poll(fds, 2, busy ? 0 : 1);
    if ((fds[1].revents & (POLLHUP | POLLRDHUP)) != 0) {
      open_.reset();
      resume_at_ = 0;
    }
    if ((fds[0].revents & POLLIN) != 0)
      welcome(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    std::lock_guard guard{mutex_};
    if (std::exchange(hang_up_, false) && open_) {
      resume_at_ = open_->reader->position();
      open_.reset();
    }
  }
}

bool fake_client::welcome(int socket) {
  auto next = std::make_unique<connection>();
  next->socket = unique_fd{socket};
  std::vector<capnp::word> buffer(8192);
  iovec part{buffer.data(), buffer.size() * sizeof(capnp::word)};
  constexpr auto memory = session_area::descriptor_count;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(16 * sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  auto n = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  auto* c = CMSG_FIRSTHDR(&header);
  if (n <= 0 || c == nullptr ||
      c->cmsg_len < CMSG_LEN((memory + 1) * sizeof(int)))
    return false;
  std::array<int, 16> fds{};
  fds.fill(-1);
  std::memcpy(fds.data(), CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
  // The descriptors of snapshots are not used here.
  std::vector<unique_fd> handed;
  for (auto fd : fds)
    handed.emplace_back(fd);
  next->doorbell = std::move(handed[memory]);
  capnp::FlatArrayMessageReader reader{
      {buffer.data(), static_cast<std::size_t>(n) / sizeof(capnp::word)}};
  auto hello = reader.getRoot<wire::GuestHello>();
  greetings_.fetch_add(1);
  capnp::MallocMessageBuilder message;
  auto out = message.initRoot<wire::GuestWelcome>();
  if (!options_.refusal.empty()) {
    out.initRefused().setReason(options_.refusal);
  } else {
    auto granted = out.initGranted();
    granted.setSession(1);
    granted.setVgpu(1);
    granted.setQuota(options_.quota);
    auto devices = granted.initDevices(static_cast<unsigned>(options_.devices));
    for (unsigned i = 0; i < devices.size(); ++i)
      describe(devices[i], options_.quota, i == 0);
    auto area = session_area::open(handed);
    if (!area)
      return false;
    next->area.emplace(std::move(*area));
    next->reader.emplace(*next->area, next->doorbell.get(),
                         hello.getResumed() ? resume_at_ : 0);
  }
  auto words = capnp::messageToFlatArray(message);
  auto bytes = words.asBytes();
  ::send(socket, bytes.begin(), bytes.size(), MSG_NOSIGNAL);
  if (options_.refusal.empty())
    open_ = std::move(next);
  turns_.clear();
  return true;
}

bool fake_client::serve_some() {
  std::lock_guard guard{mutex_};
  if (!text_.empty()) {
    open_->area->print(console::output, text_position_, text_);
    text_position_ += text_.size();
    text_.clear();
  }
  if (paused_)
    return false;
  bool any = false;
  for (int i = 0; i < 1000; ++i) {
    auto got = open_->reader->next();
    if (!got || !*got)
      break;
    execute(**got);
    any = true;
  }
  executed_ = open_->reader->position();
  if (any)
    open_->area->publish_executed(executed_);
  return any;
}

void fake_client::answer(const record& r, CUresult code, std::uint64_t value) {
  if (failure_ != CUDA_SUCCESS) {
    open_->area->header().sticky_error.store(
        static_cast<std::uint32_t>(failure_));
    code = failure_;
  }
  open_->area->answer(r.slot, r.call, code, value);
}

bool fake_client::is_protected() const {
  return open_->area->header().protection_level.load() !=
         static_cast<std::uint32_t>(protection::none);
}

std::byte* fake_client::at(device_address address, std::uint64_t bytes) {
  if (open_->area->in_host(address, bytes)) {
    // This fails where the program is this process, which has mapped it
    // already.
    if (!std::exchange(open_->host_tried, true)) [[maybe_unused]]
      auto mapped = open_->area->map_host();
    return reinterpret_cast<std::byte*>(address);
  }
  auto i = memory_.upper_bound(address);
  if (i == memory_.begin())
    return nullptr;
  --i;
  auto offset = address - i->first;
  return offset + bytes <= i->second.size() ? i->second.data() + offset
                                            : nullptr;
}

void fake_client::facts_into(const record& r, const call::arena_range& to) {
  auto facts = module_facts();
  if (facts.size() <= to.bytes)
    std::memcpy(open_->area->arena().data() + to.offset, facts.data(),
                facts.size());
  memory_.try_emplace(first_window + device_placed_offset,
                      std::vector<std::byte>(16));
  answer(r, CUDA_SUCCESS, facts.size());
}

/// Keeps the arguments that tests look at.
void fake_client::encode(const record& r, const call::tensor_map_encode& x) {
  const auto& what = x.what;
  auto map = what.from;
  if (what.form != static_cast<std::uint32_t>(tensor_map_form::moved)) {
    map[1] = what.form;
    map[2] = static_cast<std::uint64_t>(std::int64_t{what.lower[0]});
    map[3] = static_cast<std::uint64_t>(std::int64_t{what.upper[1]});
  }
  map[0] = what.address;
  auto tiled = what.form == static_cast<std::uint32_t>(tensor_map_form::tiled);
  if (tiled && what.box[0] == 0)
    return answer(r, CUDA_ERROR_INVALID_VALUE);
  std::memcpy(open_->area->arena().data() + x.to.offset, map.data(),
              sizeof map);
  answer(r, CUDA_SUCCESS, sizeof map);
}

void fake_client::when_launched(std::function<void(const call::launch&)> f) {
  std::lock_guard guard{mutex_};
  launched_ = std::move(f);
}

void fake_client::note_settings(std::span<const std::byte> bytes) {
  auto got = decode_jit_settings(bytes);
  settings_ = got ? *got : jit_settings{};
}

jit_settings fake_client::settings() {
  std::lock_guard guard{mutex_};
  return settings_;
}

void fake_client::take_conditions(bool yes) {
  std::lock_guard guard{mutex_};
  takes_conditions_ = yes;
}

void fake_client::set_condition(std::uint64_t handle, std::uint32_t value) {
  auto offset = condition_word(handle) - condition_places.front();
  std::memcpy(at(conditions_ + offset, sizeof value), &value, sizeof value);
}

template <class Call>
void fake_client::apply(const record& r, const Call& x, std::uint8_t) {
  auto each_row = [](const call::extent& size, auto f) {
    for (std::uint64_t z = 0; z < size.depth; ++z)
      for (std::uint64_t y = 0; y < size.height; ++y)
        f(y, z, (z * size.height + y) * size.width);
  };
  auto row = [this](const call::box& b, std::uint64_t y, std::uint64_t z,
                    std::uint64_t bytes) {
    return at(b.address + y * b.pitch + z * b.slice, bytes);
  };
  ++counts_[static_cast<std::uint16_t>(Call::id)];
  if constexpr (std::is_same_v<Call, call::launch> ||
                std::is_same_v<Call, call::write> ||
                std::is_same_v<Call, call::late_write> ||
                std::is_same_v<Call, call::read> ||
                std::is_same_v<Call, call::read_host> ||
                std::is_same_v<Call, call::copy> ||
                std::is_same_v<Call, call::fill>)
    tell_times_of(r);
  else if constexpr (std::is_same_v<Call, call::time_work>)
    is_traced_ = x.on != 0;
  if constexpr (std::is_same_v<Call, call::mem_alloc>) {
    memory_.emplace(x.address, std::vector<std::byte>(x.bytes));
  } else if constexpr (std::is_same_v<Call, call::mem_free>) {
    memory_.erase(x.address);
  } else if constexpr (std::is_same_v<Call, call::write_managed>) {
    std::memcpy(at(x.address, x.bytes), r.payload.data(), x.bytes);
  } else if constexpr (std::is_same_v<Call, call::read_managed>) {
    std::memcpy(open_->area->arena().data() + x.to.offset,
                at(x.address, x.bytes), x.bytes);
    answer(r, CUDA_SUCCESS);
  } else if constexpr (std::is_same_v<Call, call::module_load>) {
    note_settings(x.bytes);
    facts_into(r, x.facts);
  } else if constexpr (std::is_same_v<Call, call::part_check>) {
    note_settings(x.bytes);
    answer(r, failure_);
  } else if constexpr (std::is_same_v<Call, call::module_facts>) {
    facts_into(r, x.facts);
  } else if constexpr (std::is_same_v<Call, call::launch>) {
    launches_.push_back({x, {x.bytes.begin(), x.bytes.end()}});
    launches_.back().call.bytes = {};
    if (launched_)
      launched_(x);
  } else if constexpr (std::is_same_v<Call, call::write>) {
    each_row(x.size, [&](auto y, auto z, auto offset) {
      std::memcpy(row(x.to, y, z, x.size.width), r.payload.data() + offset,
                  x.size.width);
    });
  } else if constexpr (std::is_same_v<Call, call::late_write>) {
    late_writes_.emplace(r.call.value, x);
  } else if constexpr (std::is_same_v<Call, call::late_bytes>) {
    auto what = late_writes_.extract(x.call).mapped();
    each_row(what.size, [&](auto y, auto z, auto offset) {
      std::memcpy(row(what.to, y, z, what.size.width),
                  r.payload.data() + offset, what.size.width);
    });
  } else if constexpr (std::is_same_v<Call, call::read>) {
    each_row(x.size, [&](auto y, auto z, auto offset) {
      std::memcpy(open_->area->arena().data() + x.to.offset + offset,
                  row(x.from, y, z, x.size.width), x.size.width);
    });
    answer(r, CUDA_SUCCESS);
  } else if constexpr (std::is_same_v<Call, call::read_host> ||
                       std::is_same_v<Call, call::copy>) {
    each_row(x.size, [&](auto y, auto z, auto) {
      std::memmove(row(x.to, y, z, x.size.width),
                   row(x.from, y, z, x.size.width), x.size.width);
    });
    if constexpr (std::is_same_v<Call, call::read_host>)
      answer(r, CUDA_SUCCESS);
  } else if constexpr (std::is_same_v<Call, call::fill>) {
    each_row(x.size, [&](auto y, auto z, auto) {
      auto* to = row(x.to, y, z, x.size.width * x.element_bytes);
      for (std::uint64_t i = 0; i < x.size.width; ++i)
        std::memcpy(to + i * x.element_bytes, &x.value, x.element_bytes);
    });
  } else if constexpr (std::is_same_v<Call, call::array_create>) {
    memory_.emplace(x.address, std::vector<std::byte>(x.bytes));
    arrays_.emplace(x.array.id.value, x.address);
  } else if constexpr (std::is_same_v<Call, call::array_destroy>) {
    memory_.erase(arrays_.at(x.array.id.value));
    arrays_.erase(x.array.id.value);
  } else if constexpr (std::is_same_v<Call, call::texture_create>) {
    answer(r, failure_ != CUDA_SUCCESS ? failure_ : CUDA_SUCCESS,
           1000 + x.texture.id.value);
  } else if constexpr (std::is_same_v<Call, call::memory_share>) {
    auto first = x.address / granule_bytes;
    auto last = (x.address + x.bytes - 1) / granule_bytes;
    answer(r, CUDA_SUCCESS, share_layout{1, last - first + 2, 99}.pack());
  } else if constexpr (std::is_same_v<Call, call::memory_create>) {
    placed_.insert_or_assign(x.memory.id.value, x.bytes);
  } else if constexpr (std::is_same_v<Call, call::placed_share>) {
    auto size = placed_.at(x.memory.id.value);
    answer(r, CUDA_SUCCESS, share_layout{0, size / granule_bytes, 99}.pack());
  } else if constexpr (std::is_same_v<Call, call::memory_map>) {
    memory_.emplace(x.address, std::vector<std::byte>(x.bytes));
  } else if constexpr (std::is_same_v<Call, call::condition_place>) {
    answer(r, takes_conditions_ ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED,
           condition_places.front());
  } else if constexpr (std::is_same_v<Call, call::condition_words>) {
    conditions_ = x.address;
  } else if constexpr (std::is_same_v<Call, call::memory_unmap>) {
    memory_.erase(x.address);
  } else if constexpr (std::is_same_v<Call, call::shared_bytes>) {
    answer(r, CUDA_SUCCESS, shared_bytes_);
  } else if constexpr (std::is_same_v<Call, call::memory_import>) {
    memory_.emplace(x.address, std::vector<std::byte>(x.bytes));
    answer(r, CUDA_SUCCESS);
  } else if constexpr (std::is_same_v<Call, call::tensor_map_encode>) {
    encode(r, x);
  } else if constexpr (std::is_same_v<Call, call::elapsed>) {
    answer(r, CUDA_SUCCESS, std::bit_cast<std::uint32_t>(1.5F));
  } else if constexpr (std::is_same_v<Call, call::host_call>) {
    if (failure_ != CUDA_SUCCESS) {
      answer(r, failure_);
    } else {
      turns_.push_back({r.slot, r.call, x.stream.id, false});
      call_those_in_turn();
    }
  } else if constexpr (std::is_same_v<Call, call::host_done> ||
                       std::is_same_v<Call, call::host_ended>) {
    std::erase_if(turns_, [&](auto& t) { return t.call.value == x.call; });
    call_those_in_turn();
  } else if constexpr (std::is_same_v<Call, call::stream_create>) {
    if (x.non_blocking == 0)
      blocking_.insert(x.stream.id);
  } else if constexpr (Call::kind == call::answer::sync) {
    answer(r, CUDA_SUCCESS);
  }
}

/// Calls the host functions whose streams have come to them. A stream comes to
/// its next one when the one before has ended, and the legacy stream and
/// blocking ones wait for each other.
void fake_client::call_those_in_turn() {
  auto orders = [this](stream_id a, stream_id b) {
    return a == b || (a == legacy_stream && blocking_.contains(b)) ||
           (b == legacy_stream && blocking_.contains(a));
  };
  for (auto x = turns_.begin(); x != turns_.end(); ++x)
    if (!x->called && std::none_of(turns_.begin(), x, [&](auto& earlier) {
          return orders(earlier.stream, x->stream);
        })) {
      x->called = true;
      open_->area->call_host(x->slot, x->call);
    }
}

/// Tells that the work began and ended now.
void fake_client::tell_times_of(const record& r) {
  using namespace std::chrono;
  if (!is_traced_)
    return;
  auto now = static_cast<std::uint64_t>(
      duration_cast<nanoseconds>(system_clock::now().time_since_epoch())
          .count());
  work_times x{r.call.value, now, now, now, now, now, 0, 0, 0};
  for (auto i = 0; i < tells_times_; ++i)
    open_->area->print(console::times, session_area::at_end,
                       {reinterpret_cast<const char*>(&x), sizeof x});
}

void fake_client::execute(const record& r) {
  auto ok = call::decode(r.message, [&](const auto& x, std::uint8_t device) {
    apply(r, x, device);
  });
  if (!ok)
    throw std::runtime_error{ok.why().what};
}

} // namespace vgpu::test
