#include "actors/manager/election/etcd_codec.hpp"

#include "actors/link/permitted_keys.hpp"
#include "actors/link/printable.hpp"
#include "actors/records/checked_json.hpp"
#include "actors/records/records_json.hpp"
#include "actors/records/tenant_quota.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <charconv>
#include <exception>
#include <stdexcept>

namespace vgpu::etcd {

using nlohmann::json;

namespace {

constexpr std::string_view alphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::int64_t longest_lease = 86'400; // seconds
constexpr std::size_t longest_endpoint = 256;
constexpr std::size_t most_drained = 65'536;
constexpr std::size_t longest_node = 64;
/// Leaves room to count terms and epochs up for ever.
constexpr std::uint64_t largest_number = std::uint64_t{1} << 53;
constexpr std::uint64_t largest_term = 9'000'000;
/// Is gRPC's status code for "not found".
constexpr int not_found = 5;

// -- questions ----------------------------------------------------------------

std::string key(const std::string& prefix, const char* name) {
  return to_base64(prefix + name);
}

json range(const std::string& prefix, const char* name) {
  return {{"request_range", {{"key", key(prefix, name)}}}};
}

json put_record(const std::string& prefix, const record& x) {
  json what{{"term", x.term}, {"numbers", x.numbers}, {"drained", x.drained}};
  for (const auto& [name, limits] : x.tenants)
    what["tenants"][name] = to_json(limits);
  auto value = to_line(what);
  return {{"request_put",
           {{"key", key(prefix, "record")}, {"value", to_base64(value)}}}};
}

/// etcd writes and reads 64-bit numbers as texts.
std::string number(std::int64_t x) {
  return std::to_string(x);
}

struct encoder {
  const std::string& prefix;

  post operator()(const look&) const {
    return {
        "/v3/kv/txn",
        json{{"success", {range(prefix, "leader"), range(prefix, "record")}}}
            .dump()};
  }
  post operator()(const grant& x) const {
    return {"/v3/lease/grant", json{{"TTL", number(x.length.count())}}.dump()};
  }
  post operator()(const take& x) const {
    auto leads = to_line({{"endpoint", x.who.endpoint}, {"term", x.who.term}});
    json put{{"request_put",
              {{"key", key(prefix, "leader")},
               {"value", to_base64(leads)},
               {"lease", number(x.lease)}}}};
    json nobody{{"key", key(prefix, "leader")},
                {"target", "CREATE"},
                {"create_revision", "0"}};
    json as_seen{{"key", key(prefix, "record")},
                 {"target", "MOD"},
                 {"mod_revision", number(x.revision)}};
    return {"/v3/kv/txn", json{{"compare", {nobody, as_seen}},
                               {"success", {put, put_record(prefix, x.next)}}}
                              .dump()};
  }
  post operator()(const renew& x) const {
    return {"/v3/lease/keepalive", json{{"ID", number(x.lease)}}.dump()};
  }
  post operator()(const keep& x) const {
    json mine{{"key", key(prefix, "leader")},
              {"target", "LEASE"},
              {"lease", number(x.lease)}};
    return {"/v3/kv/txn",
            json{{"compare", json::array({mine})},
                 {"success", json::array({put_record(prefix, x.what)})}}
                .dump()};
  }
  post operator()(const revoke& x) const {
    return {"/v3/lease/revoke", json{{"ID", number(x.lease)}}.dump()};
  }
};

// -- answers ------------------------------------------------------------------

/// Reports bytes that are no answer.
struct bad_answer : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// etcd omits zeros.
std::int64_t number_of(const json& x, const char* name) {
  auto i = x.find(name);
  if (i == x.end())
    return 0;
  if (i->is_number_integer())
    return i->get<std::int64_t>();
  const auto& text = i->get_ref<const std::string&>();
  std::int64_t out = 0;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc{} || end != text.data() + text.size())
    throw bad_answer{std::string{name} + " is no number"};
  return out;
}

std::chrono::seconds length_of(const json& x) {
  auto out = number_of(x, "TTL");
  if (out < 0 || out > longest_lease)
    throw bad_answer{"a lease of " + std::to_string(out) + " s"};
  return std::chrono::seconds{out};
}

/// Returns the only key and value in the answer to a range; null where there is
/// none.
const json* entry_of(const json& response) {
  const auto& kvs = response.at("response_range");
  auto i = kvs.find("kvs");
  return i == kvs.end() || i->empty() ? nullptr : &i->at(0);
}

json value_of(const json& entry) {
  return parse_json(from_base64(entry.value("value", "")));
}

/// Reads a number of at most `most`, because larger ones are not ours.
std::uint64_t count_of(const json& x, const char* name, std::uint64_t most) {
  const auto& value = x.at(name);
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > most)
    throw bad_answer{std::string{name} + " is out of range"};
  return value;
}

/// Reads the leader. Whoever holds the key leads, even if it writes another
/// format.
leader read_leader(const json& entry) {
  leader out;
  try {
    auto value = value_of(entry);
    out.endpoint = value.at("endpoint").get<std::string>();
    out.endpoint = printable(out.endpoint.substr(0, longest_endpoint));
    out.term = count_of(value, "term", largest_term);
  } catch (const std::exception&) {
    out = {};
  }
  return out;
}

record read_record(const json& entry) {
  auto value = value_of(entry);
  record out;
  out.term = count_of(value, "term", largest_term);
  out.numbers = count_of(value, "numbers", largest_number);
  for (const auto& node : value.at("drained")) {
    const auto& name = node.get_ref<const std::string&>();
    if (name.size() > longest_node || out.drained.size() >= most_drained)
      throw bad_answer{"malformed names of nodes"};
    out.drained.insert(name);
  }
  // A leader of an earlier release knew no tenants.
  auto tenants = value.value("tenants", json::object());
  for (const auto& [name, limits] : tenants.items()) {
    if (!is_principal_name(name) || out.tenants.size() >= most_tenants)
      throw bad_answer{"malformed names of tenants"};
    out.tenants.emplace(name, limits_from_json(limits));
  }
  return out;
}

struct decoder {
  const json& body;

  answer operator()(const look&) const {
    const auto& responses = body.at("responses");
    seen out;
    if (auto* entry = entry_of(responses.at(0)))
      out.who = read_leader(*entry);
    if (auto* entry = entry_of(responses.at(1))) {
      out.kept = read_record(*entry);
      out.revision = number_of(*entry, "mod_revision");
    }
    return out;
  }
  answer operator()(const grant&) const {
    granted out{number_of(body, "ID"), length_of(body)};
    if (out.lease == 0 || out.length.count() == 0)
      throw bad_answer{"no lease in it"};
    return out;
  }
  answer operator()(const take&) const { return taken{succeeded()}; }
  answer operator()(const renew&) const {
    return renewed{length_of(body.at("result"))};
  }
  answer operator()(const keep&) const { return kept{succeeded()}; }
  answer operator()(const revoke&) const { return revoked{}; }

  bool succeeded() const { return body.value("succeeded", false); }
};

answer decode_good(const question& what, unsigned status,
                   std::string_view text) {
  constexpr unsigned ok = 200;
  auto body = parse_json(text);
  if (status == ok)
    return std::visit(decoder{body}, what);
  if (std::holds_alternative<revoke>(what) &&
      body.value("code", 0) == not_found)
    return revoked{};
  return failed{"it refuses: " + printable(body.value("error", "?"))};
}

} // namespace

post encode(const question& what, const std::string& prefix) {
  return std::visit(encoder{prefix}, what);
}

answer decode(const question& what, unsigned status, std::string_view body) {
  try {
    return decode_good(what, status, body);
  } catch (const std::exception& e) {
    return failed{"its answer (HTTP " + std::to_string(status) +
                  ") cannot be read: " + printable(e.what())};
  }
}

// -- base64 -------------------------------------------------------------------

std::string to_base64(std::string_view bytes) {
  std::string out;
  std::uint32_t bits = 0;
  auto held = 0;
  for (unsigned char x : bytes) {
    bits = bits << 8 | x;
    for (held += 8; held >= 6; held -= 6)
      out += alphabet[bits >> (held - 6) & 63];
  }
  if (held != 0)
    out += alphabet[bits << (6 - held) & 63];
  out.append((4 - out.size() % 4) % 4, '=');
  return out;
}

std::string from_base64(std::string_view text) {
  while (text.ends_with('='))
    text.remove_suffix(1);
  std::string out;
  std::uint32_t bits = 0;
  auto held = 0;
  for (auto x : text) {
    auto digit = alphabet.find(x);
    if (digit == alphabet.npos)
      throw std::invalid_argument{"no base64"};
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    held += 6;
    if (held >= 8) {
      held -= 8;
      out += static_cast<char>(bits >> held & 255);
    }
  }
  return out;
}

} // namespace vgpu::etcd
