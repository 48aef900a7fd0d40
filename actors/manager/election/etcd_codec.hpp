// Questions to etcd as its JSON gateway (v3) takes them, and what it answers.
#pragma once

#include "actors/manager/election/etcd_access.hpp"

#include <string>
#include <string_view>

namespace vgpu::etcd {

struct post {
  std::string path;
  std::string body;
};

/// `prefix` is what the keys begin with.
post encode(const question& what, const std::string& prefix);

/// The answer in an HTTP response to encode(what). `failed` where there is
/// none: a refusal, or bytes that are not what etcd sends. Never throws on
/// account of them.
answer decode(const question& what, unsigned status, std::string_view body);

/// As values of keys are written. Throws std::invalid_argument where it is
/// none.
std::string to_base64(std::string_view bytes);
std::string from_base64(std::string_view text);

} // namespace vgpu::etcd
