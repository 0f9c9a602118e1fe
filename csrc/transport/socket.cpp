#include "transport/socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <set>
#include <system_error>
#include <utility>

#include "runtime/base/status.h"

namespace mydev::transport {

// A descriptor that a forked process closes.
struct Socket::Handle {
  int descriptor;

  explicit Handle(int opened);
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle();

  struct Opened {
    std::mutex mutex;
    std::set<Handle*> handles;
  };
  static Opened& opened() {
    static Opened& opened = *new Opened;
    return opened;
  }
};

Socket::Handle::Handle(int opened_descriptor) : descriptor(opened_descriptor) {
  [[maybe_unused]] static const int registered =
      ::pthread_atfork([] { opened().mutex.lock(); }, [] { opened().mutex.unlock(); },
                       [] {
                         for (Handle* handle : opened().handles) {
                           ::close(handle->descriptor);
                           handle->descriptor = -1;
                         }
                         opened().mutex.unlock();
                       });
  const std::lock_guard lock(opened().mutex);
  opened().handles.insert(this);
}

Socket::Handle::~Handle() {
  const std::lock_guard lock(opened().mutex);
  opened().handles.erase(this);
  if (descriptor >= 0) ::close(descriptor);
}

namespace {

// For how long a host that answers nothing at all counts as alive.
constexpr int kSilenceSeconds = 60, kProbeSeconds = 15;

std::string text_of(int error) {
  return std::generic_category().message(error);
}

struct Resolved {
  explicit Resolved(const std::string& address, uint16_t port, int flags) {
    addrinfo hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = flags | AI_NUMERICSERV;
    const int code = ::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &first);
    MYDEV_CHECK(code == 0 && first != nullptr, MYDEV_INVALID_ARGUMENT, "the address '", address,
                "' of a process is not known: ", ::gai_strerror(code));
  }
  Resolved(const Resolved&) = delete;
  Resolved& operator=(const Resolved&) = delete;
  ~Resolved() { ::freeaddrinfo(first); }

  addrinfo* first = nullptr;
};

int open_socket(const addrinfo& address) {
  const int descriptor = ::socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  MYDEV_CHECK(descriptor >= 0, MYDEV_RESOURCE_EXHAUSTED, "no socket can be opened: ", text_of(errno));
  return descriptor;
}

void set_option(int descriptor, int level, int name, int value) {
  ::setsockopt(descriptor, level, name, &value, sizeof value);  // a failure costs time alone
}

void configure_connection(int descriptor) {
  set_option(descriptor, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, kProbeSeconds);
  set_option(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, kProbeSeconds);
  set_option(descriptor, IPPROTO_TCP, TCP_KEEPCNT, kSilenceSeconds / kProbeSeconds);
  set_option(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT, kSilenceSeconds * 1000);
}

bool is_not_yet(int error) noexcept {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR || error == EINPROGRESS;
}

}  // namespace

Socket::Socket() noexcept = default;
Socket::Socket(Socket&& other) noexcept = default;
Socket& Socket::operator=(Socket&& other) noexcept = default;
Socket::~Socket() = default;
Socket::Socket(int descriptor) : handle_(std::make_unique<Handle>(descriptor)) {}

Socket Socket::listen_on(const std::string& address) {
  const Resolved resolved(address, 0, AI_PASSIVE);
  Socket socket(open_socket(*resolved.first));
  const int descriptor = socket.handle_->descriptor;
  MYDEV_CHECK(::bind(descriptor, resolved.first->ai_addr, resolved.first->ai_addrlen) == 0 &&
                  ::listen(descriptor, SOMAXCONN) == 0,
              MYDEV_INVALID_ARGUMENT, "'", address,
              "' is no address of this host at which others reach it: ", text_of(errno));
  return socket;
}

uint16_t Socket::port() const {
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  MYDEV_CHECK(::getsockname(handle_->descriptor, reinterpret_cast<sockaddr*>(&bound), &size) == 0, MYDEV_INTERNAL,
              "the port of a socket is not known: ", text_of(errno));
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                                           : reinterpret_cast<const sockaddr_in&>(bound).sin_port);
}

Socket Socket::connect_to(const std::string& address, uint16_t port, Deadline deadline) {
  const Resolved resolved(address, port, 0);
  Socket socket(open_socket(*resolved.first));
  const int descriptor = socket.handle_->descriptor;
  int error = ::connect(descriptor, resolved.first->ai_addr, resolved.first->ai_addrlen) == 0 ? 0 : errno;
  if (error != 0 && is_not_yet(error)) {
    socket.wait_for(POLLOUT, deadline);
    socklen_t size = sizeof error;
    ::getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &size);
  }
  MYDEV_CHECK(error == 0, MYDEV_UNAVAILABLE, "nobody is reached at ", address, " port ", port, ": ", text_of(error));
  configure_connection(descriptor);
  return socket;
}

Socket Socket::accept(Deadline deadline) const {
  while (true) {
    const int descriptor = ::accept4(handle_->descriptor, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (descriptor >= 0) {
      configure_connection(descriptor);
      return Socket(descriptor);
    }
    MYDEV_CHECK(is_not_yet(errno) || errno == ECONNABORTED, MYDEV_UNAVAILABLE,
                "connections cannot be taken: ", text_of(errno));
    wait_for(POLLIN, deadline);
  }
}

void Socket::send(std::span<const std::byte> bytes, Deadline deadline) const {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(handle_->descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes = bytes.subspan(static_cast<size_t>(sent));
      continue;
    }
    MYDEV_CHECK(is_not_yet(errno), MYDEV_UNAVAILABLE, "the connection broke: ", text_of(errno));
    wait_for(POLLOUT, deadline);
  }
}

void Socket::receive(std::span<std::byte> bytes, Deadline deadline) const {
  while (!bytes.empty()) {
    const ssize_t received = ::recv(handle_->descriptor, bytes.data(), bytes.size(), 0);
    MYDEV_CHECK(received != 0, MYDEV_UNAVAILABLE, "the connection was closed");
    if (received > 0) {
      bytes = bytes.subspan(static_cast<size_t>(received));
      continue;
    }
    MYDEV_CHECK(is_not_yet(errno), MYDEV_UNAVAILABLE, "the connection broke: ", text_of(errno));
    wait_for(POLLIN, deadline);
  }
}

void Socket::shut_down() const noexcept {
  if (handle_ != nullptr) ::shutdown(handle_->descriptor, SHUT_RDWR);
}

void Socket::stop_sending() const noexcept {
  if (handle_ != nullptr) ::shutdown(handle_->descriptor, SHUT_WR);
}

void Socket::wait_for(short events, Deadline deadline) const {
  pollfd waited{handle_->descriptor, events, 0};
  while (true) {
    int milliseconds = -1;
    if (deadline != kNoDeadline) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      milliseconds = static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1 << 30));
    }
    const int ready = ::poll(&waited, 1, milliseconds);
    if (ready > 0) return;
    MYDEV_CHECK(ready < 0 || milliseconds == 1 << 30, MYDEV_DEADLINE_EXCEEDED, "the other side did not answer in time");
    MYDEV_CHECK(ready >= 0 || errno == EINTR, MYDEV_UNAVAILABLE, "the connection broke: ", text_of(errno));
  }
}

}  // namespace mydev::transport
