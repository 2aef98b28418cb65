/* Every status has its name and a sentence; an unknown one has both too. */
#include "cai_test.h"

int main(void) {
    ASSERT_TEXT("CAI_OK", cai_status_name(CAI_OK));
    ASSERT_TEXT("CAI_ERR_STREAM_ZERO", cai_status_name(CAI_ERR_STREAM_ZERO));
    ASSERT_TEXT("CAI_ERR_UNKNOWN", cai_status_name(12345));
    ASSERT_TEXT("CAI_ERR_UNKNOWN", cai_status_name(-1));
    ASSERT_TEXT("Success.", cai_status_message(CAI_OK));
    ASSERT_CONTAINS(cai_status_message(CAI_ERR_STREAM_ZERO), "`stream` is 0");
    ASSERT(strlen(cai_status_message(12345)) > 0);
    return 0;
}
