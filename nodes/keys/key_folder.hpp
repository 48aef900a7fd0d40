// The folder of a user's, a node's or a manager's keys, and its files.
#pragma once

#include "schema/base/fault.hpp"
#include "schema/log/session_area.hpp"

#include <optional>
#include <string>
#include <utility>

namespace vgpu {

/// Returns where keys are: $VGPU_KEYS; /etc/vgpu for root; otherwise
/// $XDG_CONFIG_HOME/vgpu or ~/.config/vgpu.
std::string default_key_folder();

/// A folder with secret files. Reads and writes only what belongs to this user
/// or root, and nobody else can read or replace.
class key_folder {
public:
  explicit key_folder(std::string path = default_key_folder())
      : path_(std::move(path)) {}

  const std::string& path() const noexcept { return path_; }
  std::string path_of(const std::string& name) const {
    return path_ + "/" + name;
  }

  /// Returns the file's text; unset: there is no such file. Fails where others
  /// may read or write it or its folder, it is a link, or it is too long.
  result<std::optional<std::string>> read(const std::string& name) const;

  /// Reads the file and parses its text. A failure to parse names the file and
  /// ends with the advice.
  template <class T>
  result<std::optional<T>> read_as(const std::string& name,
                                   result<T> (*parse)(const std::string&),
                                   const char* advice = "") const {
    auto text = read(name);
    if (!text)
      return text.why();
    if (!*text)
      return std::optional<T>{};
    auto out = parse(**text);
    if (!out)
      return out.why().reworded(path_of(name) + ": " + out.why().what + advice);
    return std::optional{std::move(*out)};
  }

  /// Replaces the file, at once for all readers. Makes the folder if needed.
  status write(const std::string& name, const std::string& text) const;

  /// Removes the file, if there is one.
  status remove(const std::string& name) const;

  /// Keeps other processes from changing the files for as long as it lives.
  /// Fails where another one does so for longer than 100 ms.
  result<unique_fd> lock() const;

private:
  result<unique_fd> open() const;
  result<unique_fd> make() const;

  std::string path_;
};

} // namespace vgpu
