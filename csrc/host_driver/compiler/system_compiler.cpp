#include "host_driver/compiler/system_compiler.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <system_error>

#include "host_driver/content_hash.h"
#include "host_driver/host_error.h"

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace mydev::host_driver {

namespace {

namespace fs = std::filesystem;

constexpr size_t kMostLines = 24;  // of a compiler's messages

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), std::istream_iterator<std::string>()};
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): read once, when the driver is loaded
  return value == nullptr ? "" : value;
}

// The path of a program, found as a shell would; "" if there is none.
std::string find_program(const std::string& name) {
  const auto runs = [](const std::string& path) {
    struct stat status{};
    return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && ::access(path.c_str(), X_OK) == 0;
  };
  if (name.find('/') != std::string::npos) return runs(name) ? name : "";
  std::istringstream directories(environment("PATH"));
  for (std::string directory; std::getline(directories, directory, ':');) {
    const std::string path = (directory.empty() ? "." : directory) + "/" + name;
    if (runs(path)) return path;
  }
  return "";
}

// Identifies the processor that runs this: -march=native may compile the same source differently on two machines.
std::string describe_processor() {
  std::string text;
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line) && !line.empty();) {
    const bool tells = line.starts_with("model") || line.starts_with("vendor_id") || line.starts_with("cpu family") ||
                       line.starts_with("flags") || line.starts_with("Features") || line.starts_with("CPU ");
    if (tells) text += line + "\n";
  }
  utsname system{};
  if (::uname(&system) == 0) text += system.machine;
  return content_hash({text});
}

std::string identity_of(const std::vector<std::string>& command) {
  std::ostringstream text;
  struct stat status{};
  for (const std::string& word : command) {
    text << word << ' ';
    const std::string program = find_program(word);  // "ccache g++" names two
    if (program.empty() || ::stat(program.c_str(), &status) != 0) continue;
    text << fs::canonical(program).string() << ' ' << status.st_size << ' ' << status.st_mtim.tv_sec << ' ';
  }
  return text.str() + describe_processor();
}

std::optional<SystemCompiler> find_compiler() {
  std::vector<std::vector<std::string>> commands = {{"c++"}, {"g++"}, {"clang++"}};
  if (std::vector<std::string> chosen = words_of(environment("CXX")); !chosen.empty()) commands = {std::move(chosen)};
  for (std::vector<std::string>& command : commands) {
    const std::string program = find_program(command.front());
    if (program.empty()) continue;
    command.front() = program;
    std::string identity = identity_of(command);
    return SystemCompiler{std::move(command), std::move(identity)};
  }
  return std::nullopt;
}

// Returns the first lines of a compiler's messages; all if they are short.
std::string first_lines(const fs::path& transcript) {
  std::ifstream file(transcript);
  std::string text;
  size_t lines = 0;
  for (std::string line; std::getline(file, line); ++lines) {
    if (lines == kMostLines) return text + "\n...";
    text += (lines == 0 ? "" : "\n") + line;
  }
  return text;
}

// The exit status, as waitpid has it.
int run_program(const std::vector<std::string>& command, const fs::path& transcript) {
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& word : command) {
    arguments.push_back(const_cast<char*>(word.c_str()));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  }
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, transcript.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t process = 0;
  const int problem = ::posix_spawn(&process, command.front().c_str(), &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  require(problem == 0, MYDEV_UNAVAILABLE, "the compiler ", command.front(),
          " cannot be run: ", std::generic_category().message(problem));
  int status = 0;
  pid_t ended = 0;
  while ((ended = ::waitpid(process, &status, 0)) < 0 && errno == EINTR) {
  }
  // A process that ignores SIGCHLD cannot ask how its children ended: the library tells.
  return ended == process ? status : 0;
}

}  // namespace

const SystemCompiler* system_compiler() {
  static const std::optional<SystemCompiler>& found = *new std::optional(find_compiler());
  return found.has_value() ? &*found : nullptr;
}

const std::vector<std::string>& compiler_flags() {
  // The flags of the host's own kernels; integers wrap, as PyTorch's do.
  static const auto& flags = *new std::vector<std::string>{
      "-x",
      "c++",
      "-std=c++17",
      "-O3",
      "-fPIC",
      "-shared",
      "-march=native",
      "-fno-math-errno",
      "-fwrapv",
      "-fno-trapping-math",
      "-fopenmp-simd",
      "-fvisibility=hidden",
  };
  return flags;
}

void compile_library(const SystemCompiler& compiler, const fs::path& source, const std::string& target,
                     const std::string& options, const fs::path& library) {
  std::vector<std::string> command = compiler.command;
  const std::vector<std::string>& flags = compiler_flags();
  command.insert(command.end(), flags.begin(), flags.end());
  command.push_back("-DMYDEV_KERNEL_TARGET=\"" + target + "\"");
  for (std::string& word : words_of(options)) command.push_back(std::move(word));
  for (const std::string& word : {std::string("-o"), library.string(), source.string()}) command.push_back(word);
  const fs::path transcript = library.string() + ".txt";
  const int status = run_program(command, transcript);
  const std::string said = first_lines(transcript);
  require(!WIFSIGNALED(status), MYDEV_UNAVAILABLE, "the compiler ", command.front(), " was ended by signal ",
          WTERMSIG(status), said.empty() ? "" : ":\n", said);
  require(WEXITSTATUS(status) != 127, MYDEV_UNAVAILABLE, "the compiler ", command.front(), " cannot be run");
  require(WEXITSTATUS(status) == 0, MYDEV_INVALID_ARGUMENT, command.front(), " does not compile the source",
          options.empty() ? "" : " with options '" + options + "'", ":\n", said);
  require(fs::exists(library), MYDEV_UNAVAILABLE, "the compiler ", command.front(), " made no library",
          said.empty() ? "" : ":\n", said);
}

}  // namespace mydev::host_driver
