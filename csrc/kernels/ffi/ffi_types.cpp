#include "kernels/ffi/ffi_types.h"

#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>

namespace mydev::ffi {

namespace {

struct Types {
  std::shared_mutex mutex;
  std::map<std::string, int64_t, std::less<>> by_name;
  std::unordered_map<int64_t, void (*)(void*)> deleters;
  std::unordered_map<int64_t, void*> user_data;
  int64_t next = 1;

  static Types& instance() {
    static Types& types = *new Types;
    return types;
  }
};

}  // namespace

std::unique_ptr<Error> register_type(std::string_view name, TypeId& type_id, const TypeInfo* info) {
  if (name.empty()) return std::make_unique<Error>(MYDEV_INVALID_ARGUMENT, "a type needs a name");
  const bool has_deleter = info != nullptr && info->struct_size >= sizeof(TypeInfo);
  void (*deleter)(void*) = has_deleter ? info->deleter : nullptr;
  Types& types = Types::instance();
  const std::unique_lock lock(types.mutex);
  const auto known = types.by_name.find(name);
  if (known != types.by_name.end()) {
    if (type_id.id == known->second && types.deleters[type_id.id] == deleter) return nullptr;
    return std::make_unique<Error>(MYDEV_ALREADY_EXISTS, "type '" + std::string(name) + "' is registered already, as " +
                                                             std::to_string(known->second));
  }
  if (type_id.id == 0) {
    while (types.deleters.contains(types.next)) ++types.next;
    type_id.id = types.next++;
  } else if (type_id.id < 0 || types.deleters.contains(type_id.id)) {
    return std::make_unique<Error>(MYDEV_ALREADY_EXISTS, "type '" + std::string(name) + "' has the id " +
                                                             std::to_string(type_id.id) +
                                                             ", which is another type's; give 0 for a new one");
  }
  types.by_name.emplace(name, type_id.id);
  types.deleters.emplace(type_id.id, deleter);
  return nullptr;
}

RegisteredType find_type(int64_t type_id) {
  Types& types = Types::instance();
  const std::shared_lock lock(types.mutex);
  const auto position = types.deleters.find(type_id);
  if (position == types.deleters.end()) return {false, nullptr};
  return {true, position->second};
}

void set_user_data(TypeId type_id, void* data) {
  Types& types = Types::instance();
  const std::unique_lock lock(types.mutex);
  types.user_data[type_id.id] = data;
}

void* find_user_data(int64_t type_id) {
  Types& types = Types::instance();
  const std::shared_lock lock(types.mutex);
  const auto position = types.user_data.find(type_id);
  return position == types.user_data.end() ? nullptr : position->second;
}

}  // namespace mydev::ffi
