// The command's output, through which nothing of a peer reaches the terminal
// but text.
#pragma once

#include <ostream>
#include <streambuf>
#include <string>

namespace vgpu {

/// A shown_output makes a stream write only what shown() lets through, and
/// lines and tabulators. Whoever prints texts of peers still passes them
/// through shown(), so that they forge no line. Its end restores the stream.
class shown_output final : private std::streambuf {
public:
  explicit shown_output(std::ostream& of);
  shown_output(const shown_output&) = delete;
  shown_output& operator=(const shown_output&) = delete;
  ~shown_output() override;

private:
  int_type overflow(int_type one) override;
  std::streamsize xsputn(const char* text, std::streamsize length) override;
  int sync() override;
  void write(bool all);

  std::ostream& of_;
  std::streambuf* to_;
  std::string waiting_;
};

} // namespace vgpu
