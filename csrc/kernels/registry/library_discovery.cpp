// Libraries that MYDEV_CUSTOM_CALLS names: which are there, which are refused, and when they are loaded.
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <optional>
#include <string_view>

#include "kernels/registry/kernel_library.h"
#include "kernels/registry/shared_object.h"
#include "runtime/base/config.h"
#include "runtime/base/status.h"

namespace mydev {

namespace {

namespace fs = std::filesystem;

// A library that may be loaded.
struct Candidate {
  std::string file;
  std::optional<std::vector<std::string>> kernels;  // of its manifest
  bool tried = false;
};

struct Discovery {
  std::mutex mutex;
  std::optional<std::string> scanned;  // the variable's value that the two lists are of
  std::vector<Candidate> candidates;
  std::vector<RefusedLibrary> refused;

  static Discovery& instance() {
    static Discovery& discovery = *new Discovery;
    return discovery;
  }
};

// Why a file or directory is not to be trusted; "" if it is. A directory with the sticky bit lets only owners replace.
std::string distrust(const fs::path& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return "no such file";
  const bool directory = S_ISDIR(status.st_mode);
  if ((status.st_mode & S_IWOTH) != 0 && !(directory && (status.st_mode & S_ISVTX) != 0)) return "world-writable";
  if (status.st_uid != 0 && status.st_uid != ::geteuid()) return "owned by another user";
  return "";
}

// The strings of "kernels" in a manifest; nullopt where there is none, or none that can be read.
std::optional<std::vector<std::string>> read_manifest(const fs::path& file) {
  std::ifstream in(file.string() + ".json");
  if (!in) return std::nullopt;
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const size_t key = text.find("\"kernels\"");
  const size_t open = key == std::string::npos ? key : text.find('[', key);
  const size_t close = open == std::string::npos ? open : text.find(']', open);
  if (close == std::string::npos) return std::nullopt;
  std::vector<std::string> names;
  for (size_t at = text.find('"', open); at < close; at = text.find('"', at)) {
    const size_t end = text.find('"', at + 1);
    if (end >= close) return std::nullopt;
    names.push_back(text.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  return names;
}

void add_file(Discovery& discovery, const fs::path& named) {
  std::error_code error;
  const fs::path file = fs::canonical(named, error);
  std::string reason = error ? "no such file" : distrust(file);
  if (reason.empty()) {
    reason = distrust(file.parent_path());
    if (!reason.empty()) reason = "in a directory that is " + reason;
  }
  if (!reason.empty()) {
    discovery.refused.push_back({named.string(), reason});
    return;
  }
  discovery.candidates.push_back({file.string(), read_manifest(file), false});
}

void add_entry(Discovery& discovery, const std::string& entry) {
  const fs::path path(entry);
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    add_file(discovery, path);
  } else {
    std::vector<fs::path> files;
    for (const fs::directory_entry& item : fs::directory_iterator(path, error)) {
      if (item.path().extension() == ".so") files.push_back(item.path());
    }
    if (error) discovery.refused.push_back({entry, "cannot be read"});
    std::sort(files.begin(), files.end());
    for (const fs::path& file : files) add_file(discovery, file);
  }
}

void scan(Discovery& discovery) {
  const std::string value = config_string("MYDEV_CUSTOM_CALLS");
  if (discovery.scanned == value) return;
  discovery.candidates.clear();
  discovery.refused.clear();
  discovery.scanned = value;
  if (value.empty()) return;
  if (::getauxval(AT_SECURE) != 0) {
    discovery.refused.push_back({value, "the process has more rights than its user"});
    return;
  }
  for (size_t begin = 0; begin <= value.size();) {
    const size_t end = std::min(value.find(':', begin), value.size());
    if (end != begin) add_entry(discovery, value.substr(begin, end - begin));
    begin = end + 1;
  }
}

bool may_have(const Candidate& candidate, const char* name) {
  if (name == nullptr || !candidate.kernels) return true;
  return std::find(candidate.kernels->begin(), candidate.kernels->end(), name) != candidate.kernels->end();
}

// True if it was loaded; a failure is kept as a refusal.
bool try_load(Discovery& discovery, Candidate& candidate) {
  candidate.tried = true;
  const RaiserBypass bypass;
  try {
    load_kernel_library(candidate.file);
    return true;
  } catch (const std::exception& error) {
    discovery.refused.push_back({candidate.file, error.what()});
    return false;
  }
}

}  // namespace

std::vector<RefusedLibrary> refused_kernel_libraries() {
  Discovery& discovery = Discovery::instance();
  const std::lock_guard lock(discovery.mutex);
  scan(discovery);
  return discovery.refused;
}

bool load_discovered_libraries(const char* name) {
  if (Loading::active()) return false;
  const Loading scope;
  Discovery& discovery = Discovery::instance();
  const std::lock_guard lock(discovery.mutex);
  bool loaded = false;
  scan(discovery);
  for (Candidate& candidate : discovery.candidates) {
    if (!candidate.tried && may_have(candidate, name)) loaded = try_load(discovery, candidate) || loaded;
  }
  return loaded;
}

}  // namespace mydev
