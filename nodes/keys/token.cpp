#include "nodes/keys/token.hpp"

#include "actors/link/curve_keys.hpp"
#include "nodes/support/paths.hpp"

#include <algorithm>

namespace vgpu {

namespace {

constexpr std::string_view token_version = "vgpu1-";
constexpr std::size_t longest_token = 2048;

/// Cuts the text up to the next `-` off.
std::string_view next_part(std::string_view& rest) {
  auto end = std::min(rest.find('-'), rest.size());
  auto out = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return out;
}

} // namespace

std::string text_of(const token& x) {
  return std::string{token_version} +
         std::string{text_in(principal_names, x.joins_as)} + "-" +
         hex_of_key(x.manager) + "-" + hex_of_key(x.secret) + "-" + x.endpoints;
}

result<token> parse_token(std::string_view text) {
  fault no{fault_kind::usage,
           "this is not a token; give it whole, as `vgpu token` printed it"};
  if (text.size() > longest_token || !text.starts_with(token_version))
    return no;
  text.remove_prefix(token_version.size());
  auto kind = next_part(text);
  token out;
  if (kind == "node")
    out.joins_as = principal::kind::node;
  else if (kind == "tenant")
    out.joins_as = principal::kind::tenant;
  else if (kind == "admin")
    out.joins_as = principal::kind::admin;
  else
    return no;
  auto manager = key_of_hex(next_part(text));
  auto secret = key_of_hex(next_part(text));
  if (!manager || !secret)
    return no;
  out.manager = *manager;
  out.secret = *secret;
  out.endpoints = text;
  if (auto good = check_endpoints(out.endpoints); !good)
    return fault{fault_kind::usage, "the token's " + good.why().what};
  return out;
}

} // namespace vgpu
