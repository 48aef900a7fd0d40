#include "actors/link/wire_values.hpp"

#include <algorithm>
#include <limits>

namespace vgpu::control::wire_values {

namespace {

/// Longest list that is read; what is longer is refused.
constexpr std::size_t longest_list = 65'536;

} // namespace

kj::StringPtr to_kj(const std::string& x) {
  return {x.c_str(), x.size()};
}

std::string text(capnp::Text::Reader x, std::size_t longest) {
  if (x.size() > longest)
    throw bad_value{"a text of " + std::to_string(x.size()) + " bytes"};
  return {x.begin(), x.size()};
}

void check_length(std::size_t entries) {
  if (entries > longest_list)
    throw bad_value{"a list of " + std::to_string(entries) + " entries"};
}

unsigned count(std::size_t values) {
  return static_cast<unsigned>(
      std::min<std::size_t>(values, std::numeric_limits<std::int32_t>::max()));
}

std::vector<std::uint32_t> read(capnp::List<std::uint32_t>::Reader from) {
  check_length(from.size());
  std::vector<std::uint32_t> out;
  for (auto x : from)
    out.push_back(x);
  return out;
}

void write(capnp::List<std::uint32_t>::Builder to,
           const std::vector<std::uint32_t>& from) {
  for (auto i = 0u; i < from.size(); ++i)
    to.set(i, from[i]);
}

protection read(wire::Protection x) {
  switch (x) {
  case wire::Protection::NONE:
    return protection::none;
  case wire::Protection::JOURNAL:
    return protection::journal;
  case wire::Protection::SNAPSHOT:
    return protection::snapshot;
  }
  throw bad_value{"an unknown protection level"};
}

wire::Protection to_wire(protection x) {
  return static_cast<wire::Protection>(x);
}

void write(wire::DeviceFacts::Builder to, const device_facts& x) {
  to.setName(to_kj(x.name));
  to.setUuid({reinterpret_cast<const kj::byte*>(x.uuid.data()), x.uuid.size()});
  to.setTotalMemory(x.total_memory);
  auto list = to.initAttributes(count(x.attributes.size()));
  auto i = 0u;
  for (auto [key, value] : x.attributes) {
    list[i].setKey(key);
    list[i++].setValue(value);
  }
}
device_facts read(wire::DeviceFacts::Reader x) {
  device_facts out;
  out.name = text(x.getName());
  auto uuid = x.getUuid();
  if (uuid.size() != out.uuid.size() && uuid.size() != 0)
    throw bad_value{"a UUID of " + std::to_string(uuid.size()) + " bytes"};
  std::copy_n(reinterpret_cast<const std::byte*>(uuid.begin()), uuid.size(),
              out.uuid.begin());
  out.total_memory = x.getTotalMemory();
  auto list = x.getAttributes();
  check_length(list.size());
  for (auto attribute : list)
    out.attributes[attribute.getKey()] = attribute.getValue();
  return out;
}

void write(wire::PGpu::Builder to, const pgpu& x) {
  to.setOrdinal(x.ordinal);
  to.setBackend(to_kj(x.backend));
  write(to.initFacts(), x.facts);
  to.setState(to_kj(x.state));
  to.setPolicy(to_kj(x.policy));
  to.setQuantumUs(x.quantum_us);
}
pgpu read(wire::PGpu::Reader x) {
  return {x.getOrdinal(),     text(x.getBackend()), read(x.getFacts()),
          text(x.getState()), text(x.getPolicy()),  x.getQuantumUs()};
}

void write(wire::WorkerEndpoints::Builder to, const worker_endpoints& x) {
  to.setEndpoint(to_kj(x.endpoint));
  to.setGuestSocket(to_kj(x.guest_socket));
  to.setHost(to_kj(x.host));
}
worker_endpoints read(wire::WorkerEndpoints::Reader x) {
  return {text(x.getEndpoint()), text(x.getGuestSocket()), text(x.getHost())};
}

void write(wire::RunningSession::Builder to, const running_session& x) {
  to.setSession(x.session.value);
  to.setEpoch(x.epoch.value);
  to.setVgpu(x.vgpu.value);
  write(to.initPgpus(count(x.pgpus.size())), x.pgpus);
  write(to.initWorker(), x.worker);
  to.setPid(x.pid);
  to.setShare(x.share);
  to.setLimit(x.limit);
  to.setPriority(x.priority);
}
running_session read(wire::RunningSession::Reader x) {
  return {{x.getSession()},   {x.getEpoch()},      {x.getVgpu()},
          read(x.getPgpus()), read(x.getWorker()), x.getPid(),
          x.getShare(),       x.getLimit(),        x.getPriority()};
}

void write(wire::Usage::Builder to, const usage& x) {
  to.setDeviceNs(x.device_ns);
  to.setReplayNs(x.replay_ns);
  to.setToDevice(x.to_device);
  to.setFromDevice(x.from_device);
  to.setReplayBytes(x.replay_bytes);
  to.setMemoryKibMs(x.memory_kib_ms);
}
usage read(wire::Usage::Reader x) {
  return {x.getDeviceNs(),   x.getReplayNs(),    x.getToDevice(),
          x.getFromDevice(), x.getReplayBytes(), x.getMemoryKibMs()};
}

void write(wire::SideMemory::Builder to, const side_memory& x) {
  to.setVariables(x.variables);
  to.setCode(x.code);
  to.setContext(x.context);
}
side_memory read(wire::SideMemory::Reader x) {
  return {x.getVariables(), x.getCode(), x.getContext()};
}

void write(wire::SessionLoad::Builder to, const session_load& x) {
  to.setSession(x.session.value);
  to.setEpoch(x.epoch.value);
  to.setMemoryBytes(x.memory_bytes);
  to.setCalls(x.calls);
  to.setCallNumber(x.call);
  to.setDeviceNs(x.device_ns);
  to.setTurns(x.turns);
  to.setQuota(x.quota);
  write(to.initUsage(), x.usage);
  to.setIdleMs(x.idle_ms);
  write(to.initBeside(), x.beside);
}
session_load read(wire::SessionLoad::Reader x) {
  return {{x.getSession()},   {x.getEpoch()},  x.getMemoryBytes(), x.getCalls(),
          x.getCallNumber(),  x.getDeviceNs(), x.getTurns(),       x.getQuota(),
          read(x.getUsage()), x.getIdleMs(),   read(x.getBeside())};
}

void write(wire::Specification::Builder to, const specification& x) {
  to.setShare(x.share);
  to.setMemory(x.memory);
  to.setGpus(x.gpus);
  to.setProtection(to_wire(x.protection));
  to.setLimit(x.limit);
  to.setPriority(x.priority);
  to.setNode(to_kj(x.node));
  to.setPgpu(x.pgpu);
  to.setBackend(to_kj(x.backend));
  to.setLocality(static_cast<wire::Locality>(x.where));
  to.setBeside(x.beside.value);
  to.setApart(x.apart.value);
  to.setWaitMs(x.wait_ms);
  to.setIdleAfterMs(x.idle_after_ms);
  to.setSnapshotMs(x.snapshot_ms);
  to.setGroup(x.group);
  to.setCapability(x.capability);
}
specification read(wire::Specification::Reader x) {
  auto where = static_cast<std::uint16_t>(x.getLocality());
  if (where > static_cast<std::uint16_t>(locality::any))
    throw bad_value{"an unknown locality"};
  specification out;
  out.share = x.getShare();
  out.memory = x.getMemory();
  out.gpus = x.getGpus();
  out.protection = read(x.getProtection());
  out.limit = x.getLimit();
  out.priority = x.getPriority();
  out.node = text(x.getNode());
  out.pgpu = x.getPgpu();
  out.backend = text(x.getBackend());
  out.where = static_cast<locality>(where);
  out.beside = {x.getBeside()};
  out.apart = {x.getApart()};
  out.wait_ms = x.getWaitMs();
  out.idle_after_ms = x.getIdleAfterMs();
  out.snapshot_ms = x.getSnapshotMs();
  out.group = x.getGroup();
  out.capability = x.getCapability();
  return out;
}

void write(wire::Program::Builder to, const program& x) {
  to.setName(to_kj(x.name));
  to.setPid(x.pid);
  to.setHost(to_kj(x.host));
  to.setUser(to_kj(x.user));
}
program read(wire::Program::Reader x) {
  return {text(x.getName()), x.getPid(), text(x.getHost()), text(x.getUser())};
}

void write(wire::Event::Builder to, const event& x) {
  to.setNumber(x.number);
  to.setTime(x.time);
  to.setKind(to_kj(x.kind));
  to.setNode(to_kj(x.node));
  to.setSession(x.session.value);
  to.setVgpu(x.vgpu.value);
  to.setEpoch(x.epoch.value);
  to.setText(to_kj(x.text));
  to.setCalls(x.calls);
  to.setBytes(x.bytes);
  to.setMilliseconds(x.milliseconds);
}
event read(wire::Event::Reader x) {
  event out;
  out.number = x.getNumber();
  out.time = x.getTime();
  out.kind = text(x.getKind());
  out.node = text(x.getNode());
  out.session = {x.getSession()};
  out.vgpu = {x.getVgpu()};
  out.epoch = {x.getEpoch()};
  out.text = text(x.getText());
  out.calls = x.getCalls();
  out.bytes = x.getBytes();
  out.milliseconds = x.getMilliseconds();
  return out;
}

} // namespace vgpu::control::wire_values
