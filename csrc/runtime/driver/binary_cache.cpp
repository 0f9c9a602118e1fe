#include "runtime/driver/binary_cache.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "runtime/base/hash.h"

namespace mydev {

namespace {

namespace fs = std::filesystem;

// Nothing if the environment names no place. Read each time: code is compiled seldom.
std::optional<fs::path> cache_directory() {
  const char* cache = std::getenv("XDG_CACHE_HOME");  // NOLINT(concurrency-mt-unsafe)
  const char* home = std::getenv("HOME");             // NOLINT(concurrency-mt-unsafe)
  if (cache != nullptr && *cache == '/') return fs::path(cache) / "torch_mydev" / "binaries";
  if (home != nullptr && *home == '/') return fs::path(home) / ".cache" / "torch_mydev" / "binaries";
  return std::nullopt;
}

bool is_private(const fs::path& directory) {
  struct stat status{};
  return ::stat(directory.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == ::geteuid() &&
         (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

fs::path file_of(const fs::path& directory, std::string_view key) {
  std::array<char, 40> name{};
  std::snprintf(name.data(), name.size(), "%016lx%016lx", static_cast<unsigned long>(fnv1a(key)),
                static_cast<unsigned long>(fnv1a(key, 1)));
  return directory / name.data();
}

// The library that the address lies in.
fs::path library_of(const void* address) {
  Dl_info info{};
  return ::dladdr(address, &info) != 0 && info.dli_fname != nullptr ? fs::path(info.dli_fname) : fs::path();
}

// A driver's engineer changes it without another version, day by day.
std::string time_of_library(const mydev_driver_api& driver) {
  static const char kOurs = 0;
  const fs::path library = library_of(driver.name);
  std::error_code problem;
  const auto time = fs::last_write_time(library, problem);
  if (problem || library.parent_path() == library_of(&kOurs).parent_path()) return "";
  return std::to_string(time.time_since_epoch().count());
}

void add_text(std::string& to, std::string_view text) {
  const uint64_t size = text.size();
  to.append(reinterpret_cast<const char*>(&size), sizeof size);
  to.append(text);
}

// A file has the key, and then the bytes, each behind its length.
std::string contents_of(std::string_view key, std::string_view bytes) {
  std::string contents;
  contents.reserve(key.size() + bytes.size() + 2 * sizeof(uint64_t));
  add_text(contents, key);
  add_text(contents, bytes);
  return contents;
}

void write_file(const fs::path& directory, std::string_view key, std::string_view bytes) {
  std::error_code problem;
  if (fs::create_directories(directory, problem)) fs::permissions(directory, fs::perms::owner_all, problem);
  if (problem || !is_private(directory)) return;
  std::string name = (directory / "writing-XXXXXX").string();
  const int file = ::mkstemp(name.data());
  if (file < 0) return;
  ::close(file);
  std::ofstream out(name, std::ios::binary);
  const std::string contents = contents_of(key, bytes);
  out.write(contents.data(), static_cast<std::streamsize>(contents.size()));
  out.close();
  if (out) fs::rename(name, file_of(directory, key), problem);
  fs::remove(name, problem);
}

}  // namespace

std::string binary_key(const Device& device, std::initializer_list<std::string_view> parts) {
  const mydev_driver_api& driver = *device.driver;
  std::string key;
  for (const char* text : {driver.name, driver.version, device.properties.driver_version,
                           static_cast<const char*>(device.properties.architecture)}) {
    add_text(key, text == nullptr ? "" : text);
  }
  add_text(key, time_of_library(driver));
  for (const std::string_view part : parts) add_text(key, part);
  return key;
}

std::optional<std::string> find_binary(std::string_view key) {
  const std::optional<fs::path> directory = cache_directory();
  if (!directory || !is_private(*directory)) return std::nullopt;
  std::ifstream file(file_of(*directory, key), std::ios::binary);
  std::string contents(std::istreambuf_iterator<char>(file), {});
  const size_t before = key.size() + 2 * sizeof(uint64_t);
  if (contents.size() <= before) return std::nullopt;
  std::string bytes = contents.substr(before);
  return contents == contents_of(key, bytes) ? std::optional(std::move(bytes)) : std::nullopt;
}

void keep_binary(std::string_view key, std::span<const std::byte> bytes) noexcept {
  try {
    const std::optional<fs::path> directory = cache_directory();
    if (directory) write_file(*directory, key, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): it is compiled again next time
  }
}

}  // namespace mydev
