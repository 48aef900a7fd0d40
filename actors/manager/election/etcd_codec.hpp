// The questions to etcd and its answers, in the JSON of its gateway (v3).
#pragma once

#include "actors/manager/election/etcd_access.hpp"

#include <string>
#include <string_view>

namespace vgpu::etcd {

struct post {
  std::string path;
  std::string body;
};

/// Returns the HTTP request for a question. `prefix` begins each key.
post encode(const question& what, const std::string& prefix);

/// Returns the answer in an HTTP response to encode(what), or `failed` where
/// etcd refused or sent unexpected bytes. Never throws because of the response.
answer decode(const question& what, unsigned status, std::string_view body);

/// Convert from and to the encoding of keys' values. from_base64() throws
/// std::invalid_argument for other text.
std::string to_base64(std::string_view bytes);
std::string from_base64(std::string_view text);

} // namespace vgpu::etcd
