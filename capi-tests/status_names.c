/* Every status has its name and a sentence; an unknown one has both too.
 * run: plain asan valgrind */
#include "cai_test.h"

/* A consumer or a plug-in reports as the library does. */
static void errors_of_others(void) {
    cai_error error;
    char longest[600];
    memset(&error, 0x55, sizeof(error));
    ASSERT_STATUS(CAI_ERR_UNSUPPORTED,
                  cai_error_set(&error, CAI_ERR_UNSUPPORTED, "typestr", "found <c8, expected <f4"));
    ASSERT(error.code == CAI_ERR_UNSUPPORTED && error.driver_code == 0);
    ASSERT_TEXT("typestr", error.field);
    ASSERT_TEXT("typestr: found <c8, expected <f4", error.message);
    ASSERT_STATUS(-3, cai_error_set(&error, -3, NULL, NULL));
    ASSERT(error.code == -3);
    ASSERT_TEXT("", error.field);
    ASSERT_TEXT("", error.message);
    ASSERT_STATUS(CAI_ERR_NO_MEMORY, cai_error_set(NULL, CAI_ERR_NO_MEMORY, "x", "y"));
    cai_error_set(&error, 1, NULL, "bad \xff byte");
    ASSERT_TEXT("bad \\xff byte", error.message);
    memset(longest, 'a', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    cai_error_set(&error, 1, longest, longest);
    ASSERT(strlen(error.field) == sizeof(error.field) - 1 &&
           strlen(error.message) == sizeof(error.message) - 1);
    ASSERT_TEXT("...", error.field + strlen(error.field) - 3);
}

int main(void) {
    ASSERT_TEXT("CAI_OK", cai_status_name(CAI_OK));
    ASSERT_TEXT("CAI_ERR_STREAM_ZERO", cai_status_name(CAI_ERR_STREAM_ZERO));
    ASSERT_TEXT("CAI_ERR_UNKNOWN", cai_status_name(12345));
    ASSERT_TEXT("CAI_ERR_UNKNOWN", cai_status_name(-1));
    ASSERT_TEXT("Success.", cai_status_message(CAI_OK));
    ASSERT_CONTAINS(cai_status_message(CAI_ERR_STREAM_ZERO), "`stream` is 0");
    ASSERT(strlen(cai_status_message(12345)) > 0);
    errors_of_others();
    return 0;
}
