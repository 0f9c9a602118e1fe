// How processes find each other. Each puts a record into the store and takes those of the others. Then a process
// connects to all before it, and those after it connect to it. A connection begins with the token of the process that
// it leads to, which only the store gives.
#include <sys/utsname.h>
#include <unistd.h>

#include <charconv>
#include <climits>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>

#include "runtime/base/status.h"
#include "transport/processes.h"

namespace mydev::transport {

namespace {

constexpr char kVersion[] = "mydev processes 1";
constexpr char kLoopback[] = "127.0.0.1";
constexpr std::chrono::seconds kGreetingTimeout{10};  // of one that connected
constexpr std::chrono::hours kLongest{24 * 365};

std::string host_name() {
  utsname names{};
  return ::uname(&names) == 0 ? names.nodename : "unknown host";
}

// Names the machine, within which the loopback address leads to the same place: one boot of a kernel, and one network
// of it.
std::string machine() {
  std::string boot = "unknown";
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  char network[64] = "";
  const ssize_t size = ::readlink("/proc/self/ns/net", network, sizeof network - 1);
  return boot + "/" + (size > 0 ? std::string(network, static_cast<size_t>(size)) : "");
}

std::string random_token() {
  std::random_device random;
  std::ostringstream token;
  token << std::hex;
  for (int i = 0; i < 4; ++i) token << random() << '-';
  std::string text = token.str();
  text.resize(40, '.');
  return text;
}

std::string key_of(int process) {
  return "mydev/process/" + std::to_string(process);
}

// One field a line.
std::string text_of(const ProcessRecord& record) {
  std::ostringstream text;
  text << kVersion << '\n' << record.devices << '\n' << record.device_kind << '\n' << record.host << '\n';
  text << record.machine << '\n' << record.address << '\n' << record.port << '\n' << record.id << '\n' << record.token;
  return text.str();
}

int64_t number_of(const std::string& line, int64_t most, int process) {
  int64_t number = -1;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number);
  const bool is_number = error == std::errc() && end == line.data() + line.size() && number >= 0 && number <= most;
  MYDEV_CHECK(is_number, MYDEV_INVALID_ARGUMENT, "the record of process ", process, " has '", line,
              "' where a number up to ", most, " belongs");
  return number;
}

ProcessRecord record_of(const std::string& text, int process) {
  std::istringstream lines(text);
  const auto line = [&lines] {
    std::string line;
    std::getline(lines, line);
    return line;
  };
  const std::string version = line();
  MYDEV_CHECK(version == kVersion, MYDEV_FAILED_PRECONDITION, "process ", process, " speaks '", version,
              "', and this one '", kVersion, "': all must have the same version of the plugin");
  ProcessRecord record;
  record.devices = number_of(line(), INT_MAX, process);
  record.device_kind = line();
  record.host = line();
  record.machine = line();
  record.address = line();
  record.port = static_cast<uint16_t>(number_of(line(), UINT16_MAX, process));
  record.id = number_of(line(), INT64_MAX, process);
  record.token = line();
  return record;
}

struct Greeting {
  int32_t index = 0;
  char token[40] = {};
};

Socket connect_to(int process, const ProcessRecord& record, int own_index, Deadline deadline) {
  Socket socket = Socket::connect_to(record.address, record.port, deadline);
  Greeting greeting{.index = own_index};
  std::memcpy(greeting.token, record.token.data(), std::min(record.token.size(), sizeof greeting.token));
  socket.send(std::as_bytes(std::span(&greeting, 1)), deadline);
  Greeting answer;
  socket.receive(std::as_writable_bytes(std::span(&answer, 1)), deadline);
  MYDEV_CHECK(answer.index == process, MYDEV_UNAVAILABLE, "process ", answer.index, " answers at its address");
  return socket;
}

// Takes the connections of all later processes. A connection without the right token is closed.
void accept_others(const Socket& listener, const JoinOptions& options, const std::string& token,
                   std::vector<Socket>& sockets, Deadline deadline) {
  for (int missing = options.count - 1 - options.index; missing > 0;) {
    Socket socket = listener.accept(deadline);
    Greeting greeting;
    try {
      const RaiserBypass bypass;
      socket.receive(std::as_writable_bytes(std::span(&greeting, 1)),
                     std::min(deadline, std::chrono::steady_clock::now() + kGreetingTimeout));
      const bool known = std::memcmp(greeting.token, token.data(), sizeof greeting.token) == 0 &&
                         greeting.index > options.index && greeting.index < options.count;
      if (!known) continue;
      const Greeting answer{.index = options.index};
      socket.send(std::as_bytes(std::span(&answer, 1)), deadline);
    } catch (const Error&) {
      continue;
    }
    sockets[static_cast<size_t>(greeting.index)] = std::move(socket);
    --missing;
  }
}

void check_reached(const std::vector<ProcessRecord>& records, int index) {
  const ProcessRecord& own = records[static_cast<size_t>(index)];
  for (size_t i = 0; i < records.size(); ++i) {
    const ProcessRecord& other = records[i];
    MYDEV_CHECK(other.machine == own.machine || (other.address != kLoopback && own.address != kLoopback),
                MYDEV_FAILED_PRECONDITION, "process ", index, " is on ", own.host, ", and process ", i, " on ",
                other.host,
                ", where they do not reach each other at the loopback address: set MYDEV_PROCESS_ADDRESS on each to "
                "the address at which the others reach it");
  }
}

// Calls `body`, and puts the number of the process into the message of its Error.
template <typename Body>
auto about_process(int process, const char* what, const Body& body) {
  std::string problem;
  mydev_code code = MYDEV_OK;
  try {
    const RaiserBypass bypass;
    return body();
  } catch (const Error& error) {
    problem = error.what();
    code = error.code();
  }
  raise(code, "process " + std::to_string(process) + " " + what + ": " + problem);
}

}  // namespace

std::shared_ptr<Processes> Processes::join(const JoinOptions& options, KeyValueStore& store) {
  MYDEV_CHECK(options.count >= 1 && options.index >= 0 && options.index < options.count, MYDEV_INVALID_ARGUMENT,
              "process ", options.index, " of ", options.count, " is none: they are numbered from 0");
  const auto timeout = options.timeout.count() < 0 ? std::chrono::milliseconds(kLongest) : options.timeout;
  const Deadline deadline = std::chrono::steady_clock::now() + timeout;
  ProcessRecord own{options.devices, options.device_kind, host_name(), machine(),
                    options.address.empty() ? kLoopback : options.address};
  const Socket listener = Socket::listen_on(own.address);
  own.port = listener.port();
  own.id = ::getpid();
  own.token = random_token();
  store.put(key_of(options.index), text_of(own));
  std::vector<ProcessRecord> records;
  for (int process = 0; process < options.count; ++process) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    records.push_back(process == options.index ? own : about_process(process, "has not come", [&] {
      const auto most = std::chrono::milliseconds(INT_MAX);
      return record_of(store.get(key_of(process), std::min(std::max(left, std::chrono::milliseconds(1)), most)),
                       process);
    }));
  }
  check_reached(records, options.index);
  std::vector<Socket> sockets(static_cast<size_t>(options.count));
  for (int process = 0; process < options.index; ++process) {
    sockets[static_cast<size_t>(process)] = about_process(process, "is not reached", [&] {
      return connect_to(process, records[static_cast<size_t>(process)], options.index, deadline);
    });
  }
  about_process(options.index, "waited for those after it", [&] {
    accept_others(listener, options, own.token, sockets, deadline);
    return true;
  });
  return std::shared_ptr<Processes>(new Processes(options, std::move(records), std::move(sockets)));
}

}  // namespace mydev::transport
