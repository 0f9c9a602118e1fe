#include "runtime/base/log.h"

#include <atomic>
#include <cstdio>
#include <exception>
#include <string>

#include "runtime/base/config.h"
#include "runtime/base/status.h"
#include "runtime/base/utf8.h"

namespace mydev {

namespace {

std::atomic<LogSink> installed_sink{nullptr};

const char* level_name(mydev_log_level level) {
  if (level >= MYDEV_LOG_ERROR) return "ERROR";
  if (level >= MYDEV_LOG_WARNING) return "WARNING";
  return level >= MYDEV_LOG_INFO ? "INFO" : "DEBUG";
}

// Returns the least level that goes to stderr: warnings if MYDEV_LOG is not valid, which check_config() reports.
mydev_log_level least_level() {
  try {
    const RaiserBypass bypass;
    const std::string name = config_string("MYDEV_LOG");
    if (name == "debug") return MYDEV_LOG_DEBUG;
    if (name == "info") return MYDEV_LOG_INFO;
    return name == "error" ? MYDEV_LOG_ERROR : MYDEV_LOG_WARNING;
  } catch (const Error&) {
    return MYDEV_LOG_WARNING;
  }
}

}  // namespace

void set_log_sink(LogSink sink) noexcept {
  installed_sink.store(sink, std::memory_order_release);
}

void log(mydev_log_level level, const char* message) noexcept {
  try {
    const std::string text = to_utf8(message != nullptr ? message : "");
    const LogSink sink = installed_sink.load(std::memory_order_acquire);
    if (sink != nullptr && sink(level, text.c_str())) return;
    if (level >= least_level()) std::fprintf(stderr, "torch_mydev %s: %s\n", level_name(level), text.c_str());
  } catch (const std::exception&) {
    return;  // no memory for a message about it
  }
}

}  // namespace mydev
