#include "actors/records/audit_chain.hpp"

#include "actors/link/printable.hpp"
#include "actors/records/checked_json.hpp"
#include "actors/records/records_json.hpp"

#include <sodium/crypto_hash_sha256.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace vgpu {

using nlohmann::json;

namespace {

constexpr std::size_t digest_digits = 2 * crypto_hash_sha256_BYTES;

bool is_digest(std::string_view x) {
  return x.size() == digest_digits && std::ranges::all_of(x, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

std::string digest_of(std::string_view text) {
  std::array<unsigned char, crypto_hash_sha256_BYTES> bytes{};
  std::string data{text};
  crypto_hash_sha256(bytes.data(),
                     reinterpret_cast<const unsigned char*>(data.data()),
                     data.size());
  constexpr auto digits = "0123456789abcdef";
  std::string out;
  for (auto byte : bytes) {
    out += digits[byte >> 4];
    out += digits[byte & 15];
  }
  return out;
}

/// Returns a peer's text as a record keeps it.
std::string kept(const std::string& text) {
  return shown(text.substr(0, longest_audit_text));
}

struct parts {
  std::uint64_t number = 0;
  std::string_view digest;
  std::string_view text;
};

/// Cuts a line into its parts; unset: it does not have them.
std::optional<parts> cut(std::string_view line) {
  parts out;
  auto number = number_of_audit_line(line);
  auto space = line.find(' ');
  if (!number || space == line.npos || line.size() > longest_audit_line)
    return std::nullopt;
  out.number = *number;
  line.remove_prefix(space + 1);
  if (line.size() < digest_digits + 1 || line[digest_digits] != ' ')
    return std::nullopt;
  out.digest = line.substr(0, digest_digits);
  out.text = line.substr(digest_digits + 1);
  return is_digest(out.digest) ? std::optional{out} : std::nullopt;
}

fault broken(std::string what) {
  return {fault_kind::corrupt, std::move(what)};
}

std::string name_of_record(std::uint64_t number) {
  return "record " + std::to_string(number);
}

/// Says how a record can have come behind another one, which it does not
/// follow.
std::string gap(std::uint64_t before, std::uint64_t number) {
  auto out = name_of_record(number) + " comes after " + name_of_record(before);
  if (number <= before)
    return out + ": records were reordered or added";
  if (number == before + 1)
    return out + " and does not follow it: one of them was replaced";
  return out + ": " +
         (number == before + 2
              ? name_of_record(before + 1) + " is missing"
              : "records " + std::to_string(before + 1) + " to " +
                    std::to_string(number - 1) + " are missing");
}

} // namespace

json to_json(const audit_record& x) {
  json out{{"number", x.number},   {"time", x.time},     {"role", x.role},
           {"name", x.name},       {"tenant", x.tenant}, {"proved", x.proved},
           {"from", x.from},       {"order", x.order},   {"object", x.object},
           {"outcome", x.outcome}, {"reason", x.reason}};
  if (x.of != 0)
    out["of"] = x.of;
  return out;
}

std::string text_of(const audit_head& x) {
  return std::to_string(x.number) + ":" + x.digest;
}

std::optional<audit_head> parse_audit_head(std::string_view text) {
  audit_head out;
  const auto* end = text.data() + text.size();
  auto [at, error] = std::from_chars(text.data(), end, out.number);
  if (error != std::errc{} || at == end || *at != ':')
    return std::nullopt;
  out.digest = std::string{at + 1, end};
  return is_digest(out.digest) ? std::optional{std::move(out)} : std::nullopt;
}

std::string add_to_chain(audit_head& head, audit_record x) {
  x.number = head.number + 1;
  for (auto* text : {&x.role, &x.name, &x.tenant, &x.from, &x.order, &x.object,
                     &x.outcome, &x.reason})
    *text = kept(*text);
  auto all = to_json(x);
  all["previous"] = head.digest;
  auto text = to_line(all);
  head = {x.number, digest_of(text)};
  return std::to_string(head.number) + " " + head.digest + " " + text;
}

std::optional<std::uint64_t> number_of_audit_line(std::string_view line) {
  std::uint64_t out = 0;
  const auto* end = line.data() + line.size();
  auto [at, error] = std::from_chars(line.data(), end, out);
  if (error != std::errc{} || at == end || *at != ' ')
    return std::nullopt;
  return out;
}

result<audit_record> read_audit_line(std::string_view line) {
  auto found = cut(line);
  if (!found)
    return broken("a line is no record");
  try {
    auto all = parse_json(found->text);
    audit_record out;
    out.number = all.at("number");
    out.time = all.at("time");
    out.role = all.at("role");
    out.name = all.at("name");
    out.tenant = all.at("tenant");
    out.proved = all.at("proved");
    out.from = all.at("from");
    out.order = all.at("order");
    out.object = all.at("object");
    out.outcome = all.at("outcome");
    out.reason = all.at("reason");
    out.of = all.value("of", std::uint64_t{0});
    return out;
  } catch (const json::exception& e) {
    return broken(name_of_record(found->number) + ": " + e.what());
  }
}

status audit_check::take(std::string_view line) {
  ++records_;
  auto found = cut(line);
  if (!found)
    return broken("the line after " + name_of_record(head_.number) +
                  " is no record: it was changed or cut");
  auto before = std::exchange(
      head_, audit_head{found->number, std::string{found->digest}});
  auto is_first =
      std::exchange(first_, first_ == 0 ? found->number : first_) == 0;
  if (found->number == wanted_.number)
    found_ = head_.digest;
  std::string previous;
  std::uint64_t number = 0;
  if (digest_of(found->text) == found->digest)
    try {
      auto all = parse_json(found->text);
      previous = all.at("previous");
      number = all.at("number");
    } catch (const json::exception&) {
      number = 0;
    }
  if (number == 0 || number != found->number)
    return broken(name_of_record(found->number) +
                  " does not match its digest: it was changed");
  if (is_first && number != 1)
    return {}; // earlier ones were rotated away
  if (number != before.number + 1 || previous != before.digest)
    return broken(is_first
                      ? "record 1 does not begin the chain: it was replaced"
                      : gap(before.number, number));
  return {};
}

status audit_check::contains(const audit_head& known) const {
  if (known.number == 0)
    return {};
  if (known.number > head_.number)
    return broken("the chain ends at " + name_of_record(head_.number) +
                  ", and had " + name_of_record(known.number) +
                  ": its end was cut off");
  if (known.number < first_)
    return {}; // rotated away
  if (!found_ || *found_ != known.digest)
    return broken(name_of_record(known.number) +
                  " is not the one whose digest was kept: the chain was "
                  "rewritten");
  return {};
}

} // namespace vgpu
