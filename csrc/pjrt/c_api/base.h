// The PJRT C API, as far as this plugin has bodies for it: errors, events, the plugin itself, and what all structs
// share.
//
// Layouts are those of the interface; tests compare each offset with a table made of the interface's own headers. In
// every struct `struct_size` comes first and says how far the caller's struct reaches: fields were only ever appended,
// so that a caller built with an older version passes a prefix (arguments.h has the check). Handles are opaque to the
// client. Outputs are marked; all else is the caller's and borrowed for the call.
//
// The version is 0.104: from 0.105 on, handles begin with tables of functions, which buys a plugin nothing.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PJRT_API_MAJOR 0
#define PJRT_API_MINOR 104

// A client may pass any number for an enumerator: in C++ that is a value only where the type is written.
#ifdef __cplusplus
#define PJRT_ENUM_TYPE : unsigned int
#else
#define PJRT_ENUM_TYPE
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum PJRT_Extension_Type PJRT_ENUM_TYPE {
  PJRT_Extension_Type_Profiler = 1,
  PJRT_Extension_Type_Layouts = 4,
  PJRT_Extension_Type_MemoryDescriptions = 6,
  PJRT_Extension_Type_CrossHostTransfers = 12,
  PJRT_Extension_Type_Shardings = 19
} PJRT_Extension_Type;

typedef struct PJRT_Extension_Base {
  size_t struct_size;
  PJRT_Extension_Type type;
  struct PJRT_Extension_Base* next;
} PJRT_Extension_Base;

// Most structs begin with these fields.
#define PJRT_STRUCT_HEAD \
  size_t struct_size;    \
  PJRT_Extension_Base* extension_start

typedef struct PJRT_Api_Version {
  PJRT_STRUCT_HEAD;
  int major_version;
  int minor_version;
} PJRT_Api_Version;

typedef struct PJRT_Error PJRT_Error;
typedef struct PJRT_Event PJRT_Event;
typedef struct PJRT_Client PJRT_Client;
typedef struct PJRT_Device PJRT_Device;
typedef struct PJRT_DeviceDescription PJRT_DeviceDescription;
typedef struct PJRT_Memory PJRT_Memory;
typedef struct PJRT_MemoryDescription PJRT_MemoryDescription;
typedef struct PJRT_TopologyDescription PJRT_TopologyDescription;
typedef struct PJRT_Buffer PJRT_Buffer;
typedef struct PJRT_Executable PJRT_Executable;
typedef struct PJRT_LoadedExecutable PJRT_LoadedExecutable;
typedef struct PJRT_ExecuteContext PJRT_ExecuteContext;

// --- errors ----------------------------------------------------------------------------------------------------------

typedef enum PJRT_Error_Code PJRT_ENUM_TYPE {
  PJRT_Error_Code_OK = 0,
  PJRT_Error_Code_CANCELLED = 1,
  PJRT_Error_Code_UNKNOWN = 2,
  PJRT_Error_Code_INVALID_ARGUMENT = 3,
  PJRT_Error_Code_DEADLINE_EXCEEDED = 4,
  PJRT_Error_Code_NOT_FOUND = 5,
  PJRT_Error_Code_ALREADY_EXISTS = 6,
  PJRT_Error_Code_PERMISSION_DENIED = 7,
  PJRT_Error_Code_RESOURCE_EXHAUSTED = 8,
  PJRT_Error_Code_FAILED_PRECONDITION = 9,
  PJRT_Error_Code_ABORTED = 10,
  PJRT_Error_Code_OUT_OF_RANGE = 11,
  PJRT_Error_Code_UNIMPLEMENTED = 12,
  PJRT_Error_Code_INTERNAL = 13,
  PJRT_Error_Code_UNAVAILABLE = 14,
  PJRT_Error_Code_DATA_LOSS = 15,
  PJRT_Error_Code_UNAUTHENTICATED = 16
} PJRT_Error_Code;

typedef struct PJRT_Error_Destroy_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Error* error;
} PJRT_Error_Destroy_Args;

typedef struct PJRT_Error_Message_Args {
  PJRT_STRUCT_HEAD;
  const PJRT_Error* error;
  const char* message;  // out; the error's
  size_t message_size;  // out
} PJRT_Error_Message_Args;

typedef struct PJRT_Error_GetCode_Args {
  PJRT_STRUCT_HEAD;
  const PJRT_Error* error;
  PJRT_Error_Code code;  // out
} PJRT_Error_GetCode_Args;

typedef void (*PJRT_Error_PayloadVisitor)(const char* key, size_t key_size, const char* value, size_t value_size,
                                          void* user_arg);

typedef struct PJRT_Error_ForEachPayload_Args {
  PJRT_STRUCT_HEAD;
  const PJRT_Error* error;
  PJRT_Error_PayloadVisitor visitor;
  void* user_arg;
} PJRT_Error_ForEachPayload_Args;

// --- events ----------------------------------------------------------------------------------------------------------

typedef struct PJRT_Event_Destroy_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Event* event;
} PJRT_Event_Destroy_Args;

typedef struct PJRT_Event_IsReady_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Event* event;
  bool is_ready;  // out
} PJRT_Event_IsReady_Args;

typedef struct PJRT_Event_Error_Args {  // gives the event's error, or FAILED_PRECONDITION while it is not ready
  PJRT_STRUCT_HEAD;
  PJRT_Event* event;
} PJRT_Event_Error_Args;

typedef struct PJRT_Event_Await_Args {  // gives the event's error
  PJRT_STRUCT_HEAD;
  PJRT_Event* event;
} PJRT_Event_Await_Args;

// Called exactly once, on any thread. The error, NULL for success, is the callee's.
typedef void (*PJRT_Event_OnReadyCallback)(PJRT_Error* error, void* user_arg);

typedef struct PJRT_Event_OnReady_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Event* event;
  PJRT_Event_OnReadyCallback callback;
  void* user_arg;
} PJRT_Event_OnReady_Args;

typedef struct PJRT_Event_Create_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Event* event;  // out
} PJRT_Event_Create_Args;

typedef struct PJRT_Event_Set_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Event* event;
  PJRT_Error_Code error_code;  // OK: ready without an error
  const char* error_message;
  size_t error_message_size;
} PJRT_Event_Set_Args;

// --- the plugin ------------------------------------------------------------------------------------------------------

typedef enum PJRT_NamedValue_Type PJRT_ENUM_TYPE {
  PJRT_NamedValue_kString = 0,
  PJRT_NamedValue_kInt64 = 1,
  PJRT_NamedValue_kInt64List = 2,
  PJRT_NamedValue_kFloat = 3,
  PJRT_NamedValue_kBool = 4
} PJRT_NamedValue_Type;

typedef struct PJRT_NamedValue {
  PJRT_STRUCT_HEAD;
  const char* name;
  size_t name_size;
  PJRT_NamedValue_Type type;
  union {
    const char* string_value;
    int64_t int64_value;
    const int64_t* int64_array_value;
    float float_value;
    bool bool_value;
  };
  size_t value_size;  // characters, elements, or 1
} PJRT_NamedValue;

typedef struct PJRT_Plugin_Initialize_Args {
  PJRT_STRUCT_HEAD;
} PJRT_Plugin_Initialize_Args;

typedef struct PJRT_Plugin_Attributes_Args {
  PJRT_STRUCT_HEAD;
  const PJRT_NamedValue* attributes;  // out; live as long as the plugin
  size_t num_attributes;              // out
} PJRT_Plugin_Attributes_Args;

#ifdef __cplusplus
}  // extern "C"
#endif
