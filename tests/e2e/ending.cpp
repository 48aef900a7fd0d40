// Runs a command and prints how it ended: `exit N` or `signal N`, which a shell
// cannot distinguish. With --group, the command leads a new process group,
// whose number is printed first.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>

int main(int argc, char** argv) {
  auto own_group = argc > 1 && std::strcmp(argv[1], "--group") == 0;
  auto** command = argv + (own_group ? 2 : 1);
  if (*command == nullptr) {
    std::fprintf(stderr, "usage: ending [--group] COMMAND...\n");
    return 2;
  }
  auto child = ::fork();
  if (child == 0) {
    if (own_group) {
      ::setpgid(0, 0);
      std::printf("group %d\n", static_cast<int>(::getpid()));
      std::fflush(stdout);
    }
    // A shell starts its background jobs with these ignored.
    ::signal(SIGINT, SIG_DFL);
    ::signal(SIGQUIT, SIG_DFL);
    ::execvp(*command, command);
    std::perror(*command);
    ::_exit(127);
  }
  auto status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child)
    return 1;
  if (WIFSIGNALED(status))
    std::printf("signal %d\n", WTERMSIG(status));
  else
    std::printf("exit %d\n", WEXITSTATUS(status));
  return 0;
}
