/* SHA-256 against the examples of FIPS 180-4 and of NIST's longer ones, by both ways of computing
 * it. */
#include "tests/fixture/check.h"

#include <string.h>

#include "engine/base/alloc.h"
#include "engine/base/sha256.h"

static const struct {
    const char *piece;
    int times;
    const char *sum;
} cases[] = {
    {"", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnop"
     "qrsmnopqrstnopqrstu",
        1, "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    {"aaaaaaaaaa", 100000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
};

static void check_examples(void)
{
    for (size_t i = 0; i < DT_COUNT(cases); i++) {
        dt_sha256 s;
        char sum[DT_SHA256_TEXT];
        dt_sha256_init(&s);
        for (int k = 0; k < cases[i].times; k++)
            dt_sha256_add(&s, cases[i].piece, strlen(cases[i].piece));
        dt_sha256_text(&s, sum);
        assert_string_equal(sum, cases[i].sum);
    }
}

static void the_examples_of_the_standard_by_the_plain_way(void **state)
{
    (void)state;
    assert_false(dti_sha256_fast(false));
    check_examples();
}

static void the_examples_of_the_standard_by_the_processors_instructions(void **state)
{
    (void)state;
    if (!dti_sha256_fast(true))
        skip();
    check_examples();
}

/* Of @n bytes, in pieces of @by. */
static void sum_up(char to[DT_SHA256_TEXT], const uint8_t *p, size_t n, size_t by)
{
    dt_sha256 s;
    dt_sha256_init(&s);
    for (size_t at = 0; at < n; at += by)
        dt_sha256_add(&s, p + at, n - at < by ? n - at : by);
    dt_sha256_text(&s, to);
}

/* Every length around the ends of blocks, from addresses that are not aligned, in any pieces. */
static void both_ways_agree_on_every_length_and_piece(void **state)
{
    (void)state;
    enum { MOST = 400 };
    uint8_t bytes[MOST + 3];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 167 + i / 7);
    if (!dti_sha256_fast(true))
        skip();
    for (size_t n = 0; n < MOST; n++) {
        char plain[DT_SHA256_TEXT], fast[DT_SHA256_TEXT], pieces[DT_SHA256_TEXT];
        (void)dti_sha256_fast(false);
        sum_up(plain, bytes + n % 3, n, MOST);
        (void)dti_sha256_fast(true);
        sum_up(fast, bytes + n % 3, n, MOST);
        sum_up(pieces, bytes + n % 3, n, n % 130 + 1);
        assert_string_equal(fast, plain);
        assert_string_equal(pieces, plain);
    }
}

/* The whole length counts, in bits and in 64 of them. */
static void a_sum_over_more_than_512_mebibytes_counts_its_bits(void **state)
{
    (void)state;
    enum { PIECE = 1 << 20 };
    uint8_t *zeros = dt_alloc(PIECE, 1);
    char sum[DT_SHA256_TEXT];
    dt_sha256 s;
    assert_non_null(zeros);
    if (!dti_sha256_fast(true)) {
        dt_free(zeros);
        skip(); /* it would take seconds */
    }
    dt_sha256_init(&s);
    for (int i = 0; i < 513; i++)
        dt_sha256_add(&s, zeros, PIECE);
    dt_sha256_text(&s, sum);
    assert_string_equal(sum, "a3e2acbb469e4e59dde406f912e754c933c1ac0fb0092a3634d61d5073309c0c");
    dt_free(zeros);
}

DT_TEST_GROUP(sha256)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_examples_of_the_standard_by_the_plain_way),
        cmocka_unit_test(the_examples_of_the_standard_by_the_processors_instructions),
        cmocka_unit_test(both_ways_agree_on_every_length_and_piece),
        cmocka_unit_test(a_sum_over_more_than_512_mebibytes_counts_its_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
