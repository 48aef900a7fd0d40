#include "policies/simulator/distribution.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace vgpu::simulator {

distribution distribution_of(std::vector<double> all) {
  if (all.empty())
    return {};
  std::sort(all.begin(), all.end());
  auto at = [&](double part) {
    auto rank = std::ceil(part * static_cast<double>(all.size()));
    return all[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
  };
  auto sum = std::accumulate(all.begin(), all.end(), 0.0);
  constexpr double most_of_all = 0.95;
  constexpr double nearly_all = 0.99;
  return {sum / static_cast<double>(all.size()), at(most_of_all),
          at(nearly_all), all.back()};
}

double jain_index(const std::vector<double>& all) {
  auto sum = 0.0;
  auto squares = 0.0;
  for (auto x : all) {
    sum += x;
    squares += x * x;
  }
  return squares > 0 ? sum * sum / (static_cast<double>(all.size()) * squares)
                     : 1;
}

} // namespace vgpu::simulator
