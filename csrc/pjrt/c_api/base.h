// The PJRT C API, as far as this plugin has bodies for it: errors, events, the plugin itself, and what all structs
// share.
//
// Layouts are those of the interface; tests compare each offset with a table made of the interface's own headers. In
// every struct `struct_size` comes first and says how far the caller's struct reaches: fields were only ever appended,
// so that a caller built with an older version passes a prefix (arguments.h has the check). Handles are opaque to the
// client. Outputs are marked; all else is the caller's and borrowed for the call. Only GetPjrtApi (table.h) needs
// C's linkage.
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

// Declares a struct of at most 32 fields. Fields after `/*out*/` are outputs, up to `/*in*/` if there is one.
#define PJRT_STRUCT(name, ...)             \
  typedef struct name {                    \
    PJRT_SCAN_31(PJRT_FIELDS(__VA_ARGS__)) \
  } name
// Ends each field with a semicolon. A macro does not expand within itself, so each scan reaches one field more.
#define PJRT_FIELDS(field, ...) \
  field;                        \
  __VA_OPT__(PJRT_MORE_FIELDS PJRT_NOTHING(__VA_ARGS__))
#define PJRT_MORE_FIELDS() PJRT_FIELDS
#define PJRT_NOTHING ()
#define PJRT_SCAN_31(...) PJRT_SCAN_6(PJRT_SCAN_6(PJRT_SCAN_6(PJRT_SCAN_6(PJRT_SCAN_6(__VA_ARGS__)))))
#define PJRT_SCAN_6(...) PJRT_SCAN(PJRT_SCAN(PJRT_SCAN(PJRT_SCAN(PJRT_SCAN(__VA_ARGS__)))))
#define PJRT_SCAN(...) __VA_ARGS__

// Most structs begin with these fields.
#define PJRT_STRUCT_HEAD \
  size_t struct_size;    \
  PJRT_Extension_Base* extension_start
// Declares the arguments of a function, and a table's entry for one that gives an error, NULL for success.
#define PJRT_ARGS(function, ...) PJRT_STRUCT(function##_Args, PJRT_STRUCT_HEAD __VA_OPT__(, ) __VA_ARGS__)
#define PJRT_FUNCTION(name) PJRT_Error* (*name)(struct name##_Args * args)

PJRT_STRUCT(PJRT_Api_Version, PJRT_STRUCT_HEAD, int major_version, int minor_version);

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

PJRT_ARGS(PJRT_Error_Destroy, PJRT_Error* error);
PJRT_ARGS(PJRT_Error_Message, const PJRT_Error* error,
          /*out*/ const char* message, size_t message_size);  // the error's
PJRT_ARGS(PJRT_Error_GetCode, const PJRT_Error* error, /*out*/ PJRT_Error_Code code);

typedef void (*PJRT_Error_PayloadVisitor)(const char* key, size_t key_size, const char* value, size_t value_size,
                                          void* user_arg);
PJRT_ARGS(PJRT_Error_ForEachPayload, const PJRT_Error* error, PJRT_Error_PayloadVisitor visitor, void* user_arg);

// --- events ----------------------------------------------------------------------------------------------------------

PJRT_ARGS(PJRT_Event_Destroy, PJRT_Event* event);
PJRT_ARGS(PJRT_Event_IsReady, PJRT_Event* event, /*out*/ bool is_ready);
// Both give the event's error; the first one FAILED_PRECONDITION while it is not ready.
PJRT_ARGS(PJRT_Event_Error, PJRT_Event* event);
PJRT_ARGS(PJRT_Event_Await, PJRT_Event* event);

// Called exactly once, on any thread. The error, NULL for success, is the callee's.
typedef void (*PJRT_Event_OnReadyCallback)(PJRT_Error* error, void* user_arg);
PJRT_ARGS(PJRT_Event_OnReady, PJRT_Event* event, PJRT_Event_OnReadyCallback callback, void* user_arg);
PJRT_ARGS(PJRT_Event_Create, /*out*/ PJRT_Event* event);
PJRT_ARGS(PJRT_Event_Set, PJRT_Event* event, PJRT_Error_Code error_code,  // OK: ready without an error
          const char* error_message, size_t error_message_size);

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

PJRT_ARGS(PJRT_Plugin_Initialize);
PJRT_ARGS(PJRT_Plugin_Attributes,
          /*out*/ const PJRT_NamedValue* attributes, size_t num_attributes);  // live as long as the plugin
