// A manager whose peers have keys. The test plays them.
#pragma once

#include "actors/link/permitted_keys.hpp"

#include "tests/unit/actors/manager_fixture.hpp"

#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

namespace vgpu::test {

/// Returns each message once, in the order of the table.
inline std::vector<body> each_message() {
  std::vector<body> out;
  std::apply(
      [&](const auto&... row) {
        (out.emplace_back(typename std::decay_t<decltype(row)>::type{}), ...);
      },
      messages);
  return out;
}

/// Are users of two tenants.
inline const principal of_physics{principal::kind::tenant, "pat", "physics",
                                  std::string(40, 'p')};
inline const principal of_biology{principal::kind::tenant, "bo", "biology",
                                  std::string(40, 'b')};

/// A manager to whom all say something with a key.
struct keyed_cluster : cluster {
  explicit keyed_cluster(bool begin = true) : cluster(begin) {}

  void say_as(const principal& who, const std::string& peer,
              const std::string& from, body what, std::uint64_t request = 0) {
    tell(chief, std::make_shared<const incoming>(
                    incoming{peer,
                             {from, request, std::move(what)},
                             std::make_shared<const principal>(who)}));
  }

  void greet_as(const principal& who, const std::string& peer,
                const std::string& from, role as) {
    say_as(who, peer, from, hello{1, 1, "t", as});
  }
};

} // namespace vgpu::test
