/* `dnntrain explain`, `config` and `help NAME`: what they say is what the plan and the tables have.
 */
#include <string.h>

#include "engine/base/alloc.h"
#include "memory/policy.h"
#include "tests/fixture/run_cli.h"

static ran run_here(const char *words)
{
    return cli_run(words, dt_source_path("configs/chain.ini"));
}

static void says(const char *words, const char *const *want)
{
    ran r = run_here(words);
    assert_code(&r, 0);
    for (; *want != NULL; want++)
        assert_has(r.out, *want);
    assert_has_not(r.out, "nan");
    cli_done(&r);
}

/* The line of a text that begins so; its end in @n. */
static const char *line_of(const char *text, const char *begin, size_t *n)
{
    for (const char *at = text; at != NULL; at = strchr(at, '\n')) {
        at += *at == '\n';
        if (strncmp(at, begin, strlen(begin)) == 0) {
            *n = strcspn(at, "\n");
            return at;
        }
        if (*at == '\0')
            break;
    }
    fail_msg("no line begins with '%s'", begin);
    return NULL;
}

/* How often a mark stands in the drawing of a tensor. */
static int marks(const char *text, const char *tensor, char mark)
{
    size_t n = 0;
    int count = 0;
    const char *line = line_of(text, tensor, &n);
    for (size_t i = strlen(tensor); i < n; i++)
        count += line[i] == mark;
    return count;
}

static void a_tensor_is_there_between_its_uses_unless_it_waits_elsewhere(void **state)
{
    NEED_BINARY();
    /* made; read by c5.f, c5.bw and r4.b */
    static const struct {
        const char *policy;
        int made, again;
        bool gone;
    } rows[] = {{"keep_all", 1, 0, false}, {"vdnn_all", 1, 0, true}, {"chen_sqrt", 1, 1, true},
        {"gist", 1, 1, true}};
    for (size_t i = 0; i < DT_COUNT(rows); i++) {
        char words[256];
        snprintf(words, sizeof words, "explain FILE r4.y --set memory.policy=%s", rows[i].policy);
        ran r = run_here(words);
        assert_code(&r, 0);
        const char *drawn = strstr(r.out, "forward");
        assert_non_null(drawn);
        assert_int_equal(marks(drawn, "r4.y  ", 'W'), rows[i].made);
        assert_int_equal(marks(drawn, "r4.y  ", 'A'), rows[i].again);
        assert_true(marks(drawn, "r4.y  ", 'R') >= 3);
        size_t n = 0;
        const char *line = line_of(drawn, "r4.y  ", &n);
        const char *made = strchr(line, 'W'), *read = line + n;
        while (*read != 'R')
            read--;
        bool gone = false;
        for (const char *c = made; c < read; c++)
            gone = gone || *c == '.';
        assert_int_equal(gone, rows[i].gone);
        cli_done(&r);
    }
}

static void layers_and_policies_are_explained_by_their_rules(void **state)
{
    NEED_BINARY();
    says("explain FILE r4 --set memory.policy=chen_sqrt",
        (const char *const[]){"layer relu, output 32x32x16", "r4.y ",
            "made again: chen_sqrt: between checkpoints r3 and r6", "d.r4 ", NULL});
    says("explain FILE c4", (const char *const[]){"layer conv", "c4.weight ", "stays",
                                "g.c4.weight ", "m0.c4.weight ", "  idle 1 op\n", NULL});
    says("explain FILE d.c4", (const char *const[]){"\nidle      for 1 op and ", NULL});
    says("explain FILE vdnn_all",
        (const char *const[]){"under vdnn_all, 9.39 MiB with all kept", "a step moves 7.00 MiB out",
            "r7.y ", "input of convolution c8", NULL});
    says("explain FILE vdnn_dyn --set memory.device_budget=6500KiB",
        (const char *const[]){
            "under vdnn_conv", "r7.y ", "vdnn_conv: input of convolution c8", NULL});
    says("explain FILE auto --set memory.simulate=p100 --set memory.device_budget=6500KiB "
         "--set memory.cache=none",
        (const char *const[]){"under auto", "made again", NULL});
    says("explain FILE zero_offload --set train.momentum=0.9",
        (const char *const[]){"g.c1.weight ", "lives on the host", NULL});
    says("explain FILE keep_all", (const char *const[]){"program 'first'\n  nothing\n", NULL});
    says("explain FILE gist --set policy.gist.dpr=fp8 --set memory.policy=gist",
        (const char *const[]){"results   change", "waits for backward in fp8", NULL});
}

static void options_are_those_in_force(void **state)
{
    NEED_BINARY();
    says("explain FILE gist",
        (const char *const[]){"\noption    policy.gist.dpr = fp16 (fp16, fp10, fp8)\n",
            "\noption    policy.gist.density = 1 (0..1)\n", NULL});
    says("explain FILE gist --set policy.gist.dpr=fp8 --set policy.gist.density=0.25 --set "
         "memory.policy=vdnn_all,gist",
        (const char *const[]){"\noption    policy.gist.dpr = fp8 (fp16, fp10, fp8)\n",
            "\noption    policy.gist.density = 0.25 (0..1)\n", NULL});
    says("explain FILE geeps --set policy.geeps.pin=c1,c2 --set memory.policy=geeps",
        (const char *const[]){"\noption    policy.geeps.move = * (text)\n",
            "\noption    policy.geeps.pin = c1,c2 (text)\n", NULL});
}

/* Of few ops forward has fewer columns than its word has letters. */
static void backward_stands_over_its_first_op(void **state)
{
    NEED_BINARY();
    ran r = cli_run("explain FILE f1.y",
        cli_file("two.ini", "[model]\nimage = 4\nchannels = 1\nclasses = 2\n[fc f1]\nout = 8\n"
                            "[tanh t]\n[fc f2]\nout = 2\n[train]\nbatch = 4\n"));
    assert_code(&r, 0);
    assert_has(r.out, "\n          forw| backward\n"); /* two of fc, tanh, the loss */
    cli_done(&r);
}

static void a_layer_that_is_fused_is_explained_where_it_is(void **state)
{
    NEED_BINARY();
    static const char ini[] =
        "[model]\nimage = 8\nclasses = 2\n[conv c1]\nout = 4\nkernel = 3\n[batchnorm norm]\n"
        "[relu rect]\n[fc f]\nout = 2\n[data]\nsamples = 64\n[train]\nbatch = 8\n";
    static const char *const rows[][4] = {
        {"explain FILE rect", "rect is computed with norm (model.fuse = on), as batchnorm_relu\n",
            "norm   layer batchnorm_relu, output 6x6x4", "norm.istd "},
        {"explain FILE rect.y", "rect is computed with norm (model.fuse = on)", "norm.y ", ""},
        {"explain FILE rect --set model.fuse=off", "rect   layer relu, output 6x6x4", "rect.y ",
            ""}};
    for (size_t i = 0; i < DT_COUNT(rows); i++) {
        ran r = cli_run(rows[i][0], cli_file("fused.ini", ini));
        assert_code(&r, 0);
        for (int k = 1; k < 4; k++)
            assert_has(r.out, rows[i][k]);
        cli_done(&r);
    }
    ran r = cli_run("explain FILE rct", cli_file("fused.ini", ini));
    assert_code(&r, DT_E_CONFIG);
    assert_has(r.err, "did you mean 'rect'?");
    cli_done(&r);
}

static void what_there_is_not_is_refused_with_the_nearest(void **state)
{
    NEED_BINARY();
    static const char *const rows[][2] = {
        {"explain FILE r4y", "did you mean 'r4.y'?"},
        {"explain FILE scoress", "did you mean 'scores'?"},
        {"explain FILE vdn_all", "did you mean 'vdnn_all'?"},
        {"explain FILE zzzzzzzzzz", "`dnntrain show` lists the layers"},
        {"explain FILE", "name a CONFIG and what to explain"},
        {"explain chen_sqrt FILE", "the configuration comes first: dnntrain explain "},
        {"explain FILE r4 --program frist", "did you mean 'first'?"},
        {"config", "name one CONFIG"},
        {"config FILE --check FILE", "name one CONFIG"},
        {"config --check FILE --set train.bach=4", "did you mean 'batch'?"},
        {"help gost", "did you mean 'gist'?"},
        {"help nity", "there is no help on 'nity'"},
        {"help checkpont", "did you mean 'checkpoint'?"},
    };
    for (size_t i = 0; i < DT_COUNT(rows); i++) {
        ran r = run_here(rows[i][0]);
        assert_code(&r, DT_E_CONFIG);
        assert_has(r.err, rows[i][1]);
        cli_done(&r);
    }
}

static void a_configuration_is_checked_and_printed(void **state)
{
    NEED_BINARY();
    says("config --check FILE",
        (const char *const[]){"all keys and layers are right: chain, 19", NULL});
    says("config FILE --set train.batch=5",
        (const char *const[]){"batch = 5", "[conv c8]", "threads = 1", NULL});
}

static void there_is_help_on_keys_layers_and_commands(void **state)
{
    NEED_BINARY();
    says("help train.batch", (const char *const[]){"train.batch = ", "samples of a step", NULL});
    says("help lr", (const char *const[]){"train.lr = ", NULL});
    says("help checkpoint", (const char *const[]){"[checkpoint]", "checkpoint.keep_last", NULL});
    says("help train", (const char *const[]){"--resume", "train.batch = ", NULL});
    says("help policy.gist.dpr", (const char *const[]){"fp16, fp10, fp8", NULL});
    says("help conv.kernel", (const char *const[]){"conv.kernel = ", NULL});
    says("help linear.shares", (const char *const[]){"linear.shares = ", "an embedding", NULL});
    says("help input", (const char *const[]){"[KIND NAME].input = ", NULL});
    says("help tiles", (const char *const[]){"model.tiles = ", "[KIND NAME].tiles = ", NULL});
    says("help memory.layers", (const char *const[]){"its value a fate; the last", NULL});
    says("help auto", (const char *const[]){"--set memory.device_budget=6500KiB", NULL});
    says("help conv", (const char *const[]){"[conv NAME]", "kernel = ", NULL});
    says("help profile", (const char *const[]){"--margin", "memory.profile = ", NULL});
}

/* What a reader meets and asks for, on the first evening. */
/* The command at the end of a policy's help, in the words that cli_run takes. */
static void last_command(const char *help, char *to, size_t bytes)
{
    static const char begin[] = "  dnntrain explain configs/chain.ini ";
    const char *at = strstr(help, begin);
    assert_non_null(at);
    size_t n = (size_t)snprintf(to, bytes, "explain FILE ");
    for (at += strlen(begin); *at != '\0' && n + 1 < bytes; at++)
        if (*at != '\\' && *at != '\n')
            to[n++] = *at;
    to[n] = '\0';
}

/* Its idea, where it was published, and a command to see it at work, which does. */
static void help_on_a_policy_teaches_it(void **state)
{
    NEED_BINARY();
    size_t n = 0;
    const dt_policy *const *all = dt_policy_all(&n);
    for (size_t i = 0; i < n; i++) {
        const char *name = all[i]->name;
        const bool ours = strcmp(name, "keep_all") == 0 || strcmp(name, "auto") == 0;
        char words[128], command[256], head[96];
        snprintf(words, sizeof words, "help %s", name);
        ran r = run_here(words);
        assert_code(&r, 0);
        snprintf(head, sizeof head, "%s: ", name);
        assert_int_equal(strncmp(r.out, head, strlen(head)), 0);
        const char *idea = strstr(r.out, "\n\n");
        if (idea == NULL || strlen(idea) < 300 || idea[2] == '\n')
            fail_msg("help %s has no idea of it:\n%s", name, r.out);
        assert_has_not(r.out, "](");
        assert_has_not(r.out, "`");
        assert_true((strstr(r.out, "\npaper     ") == NULL) == ours);
        assert_has_not(r.out, "https://doi.org/\n");
        for (const dt_opt *o = all[i]->opts; o != NULL && o->key != NULL; o++) {
            snprintf(head, sizeof head, "\npolicy.%s.%s = ", name, o->key);
            assert_has(r.out, head);
        }
        last_command(r.out, command, sizeof command);
        cli_done(&r);
        if (!dt_picked(i, 6, 2, 1))
            continue; /* policies by turns are seen at work */
        r = run_here(command);
        if (r.code == DT_E_CONFIG && strstr(r.err, "CBC") != NULL) {
            cli_done(&r); /* built without it */
            continue;
        }
        assert_code(&r, 0);
        snprintf(head, sizeof head, "%s   ", name);
        assert_int_equal(strncmp(r.out, head, strlen(head)), 0);
        cli_done(&r);
    }
    says("help chen_sqrt",
        (const char *const[]){"cut into about", "Chen et al.: Training Deep Nets with",
            "https://doi.org/10.48550/arXiv.1604.06174", NULL});
}

static void there_is_help_on_words_values_and_what_is_listed(void **state)
{
    NEED_BINARY();
    static const char *const rows[][2] = {
        {"gap", "two consecutive accesses"},
        {"activations", "activation: what a layer writes"},
        {"activation gradients", "activation gradient: "},
        {"stash", "in the papers: saved tensor"},
        {"lower bound", "largest sum of live bytes"},
        {"again", "further ones"},
        {"rematerialization", "recompute: forward again"},
        {"units", "KB MB GB TB by 1000"},
        {"exit codes", "4 does not fit the budgets"},
        {"DT_ISA", "DT_ISA=plain"},
        {"ONEDNN_MAX_CPU_ISA", "ONEDNN_MAX_CPU_ISA"},
        {"environment", "GOMP_SPINCOUNT"},
        {"p100", "a card: --set memory.simulate=p100"},
        {"resnet50", "a model: --set model.name=resnet50"},
        {"csr", "a codec: --set memory.layers.LAYER=encode csr"},
        {"cards", "Tesla P100"},
        {"policies", "chen_sqrt"},
        {"adamw", "train.optimizer = sgd, adam, adamw, lion"},
        {"bf16", "train.precision = "},
        {"small", "memory.algorithms = "},
        {"fp10", "a codec: "},
        {"plan", "plan, row: what is run"},
        {"checkpoint", "of a run: what it saves"},
        {"glossary", "| gap | idle interval"},
        {"onnx", "tools/weights.py"},
        {"rmsprop", "train.optimizer is sgd"},
        {"fine-tuning", "model.fresh"},
        {"map", "map: the list of all tensors that outlive a step"},
        {"load curve", "in use after each op"},
        {"resident", "on the device at that time"},
        {"hidden", "under way beside ops"},
        {"stage", "in `checkmate` stages are steps of time"},
        {"segmentation", "classify --masks"},
        {"mIoU", "mean intersection over union"},
        {"dice", "learned by cross_entropy"},
        {"ImageFolder", "data.source = images"},
        {"DataLoader", "data.ahead"},
        {"OOM", "refused before its first step"},
        {"residual", "[add NAME]"},
        {"init", "He's fan out"}, /* none of ZeRO-Infinity's letters */
        {"Infinity", "memory-centric tiling"},
        {"ReLU", "[relu NAME]"}, /* before what papers say of one */
        {"Bias", "train.no_decay"},
        {"StepLR", "train.schedule"},
        {"state_dict", "tools/weights.py"},
        {"ignore_index", "data.ignore_label"},
        {"zero_grad", "gradients of its own"},
        {"GradScaler", "train.precision"},
    };
    for (size_t i = 0; i < DT_COUNT(rows); i++) {
        char words[128];
        snprintf(words, sizeof words, "help %s", rows[i][0]);
        says(words, (const char *const[]){rows[i][1], NULL});
    }
}

static void the_glossary_of_the_pages_is_the_programs(void **state)
{
    NEED_BINARY();
    char *page = cli_text(dt_source_path("docs/design.md"));
    ran r = cli_run("help glossary", NULL);
    assert_code(&r, 0);
    assert_has(page, r.out);
    dt_free(page);
    cli_done(&r);
}

/* The words that a page of the tutorial explains, in bold, are explained by the program too: but
 * for numbers, letters, and the word that says so. */
static void words_of_a_page_have_help(const char *page, size_t *n)
{
    enum { LEAST = 3, MOST = 40 };
    for (const char *at = strstr(page, "**"), *end; at != NULL; at = strstr(end + 2, "**")) {
        end = strstr(at + 2, "**");
        assert_non_null(end);
        char word[MOST + 1], words[MOST + 8];
        snprintf(word, sizeof word, "%.*s", (int)(end - at - 2), at + 2);
        if (strlen(word) < LEAST || word[0] < 'a' || word[0] > 'z' || strcmp(word, "bold") == 0)
            continue;
        snprintf(words, sizeof words, "help %s", word);
        ran r = run_here(words);
        if (r.code != 0)
            fail_msg(
                "'%s' is explained on a page, and no word of `dnntrain help`: %s", word, r.err);
        cli_done(&r);
        ++*n;
    }
}

static void the_tutorials_words_have_help(void **state)
{
    NEED_BINARY();
    static const char *const pages[] = {
        "1-what-a-step-holds", "2-offload", "3-recompute", "4-encode", "5-compose", "6-what-stays"};
    size_t n = 0;
    for (size_t i = 0; i < DT_COUNT(pages); i++) {
        char path[128];
        snprintf(path, sizeof path, "docs/tutorial/%s.md", pages[i]);
        char *page = cli_text(dt_source_path(path));
        words_of_a_page_have_help(page, &n);
        dt_free(page);
    }
    assert_true(n > 15);
}

/* Names whose beginning has no room are told apart by the rest, in a layer's drawing and in tables.
 */
static void no_two_names_are_cut_to_the_same(void **state)
{
    NEED_BINARY();
    static const char *const words[] = {"plan FILE",
        "explain FILE features.denseblock3.denselayer10.conv2 --set memory.policy=zero_infinity"};
    for (size_t i = 0; i < DT_COUNT(words); i++) {
        ran r = cli_run(words[i], dt_source_path("configs/densenet121.ini"));
        assert_code(&r, 0);
        size_t n = 0;
        for (const char *at = r.out; *at != '\0'; at += strcspn(at, " \n") + 1) {
            char name[64];
            snprintf(name, sizeof name, "%.*s ", (int)strcspn(at, " \n"), at);
            if (strstr(name, "..") == NULL || strstr(name, "layer") == NULL)
                continue;
            n++;
            if (strstr(at + 1, name) != NULL)
                fail_msg("dnntrain %s: two rows are called %s", words[i], name);
        }
        assert_true(n > 1);
        cli_done(&r);
    }
}

/* Characters count once, however many bytes. */
static void nothing_is_wider_than(int width, const char *const *words)
{
    for (; *words != NULL; words++) {
        ran r = run_here(*words);
        assert_code(&r, 0);
        int column = 0;
        for (const char *c = r.out; *c != '\0'; c++) {
            column = *c == '\n' ? 0 : column + (((unsigned char)*c & 0xc0) != 0x80);
            if (column > width)
                fail_msg("dnntrain %s: wider than %d columns: ...%.40s", *words, width,
                    c > r.out + 39 ? c - 39 : c);
        }
        cli_done(&r);
    }
}

/* What is printed for people, in 80 columns; and tables in the fewest that are theirs. */
static void nothing_is_wider_than_a_terminal(void **state)
{
    NEED_BINARY();
    static const char *const tables[] = {"show FILE", "plan FILE",
        "plan FILE --set memory.policy=vdnn_all --set memory.simulate=p100", NULL};
    nothing_is_wider_than(
        80, (const char *const[]){"help", "help train", "help plan", "help compare", "help pool",
                "help remat", "help eval", "help memory", "help gist", "help layernorm",
                "help role", "help units", "help gap", "help h100", "help again",
                "explain FILE r4.y --set memory.policy=vdnn_all", "explain FILE c4",
                "explain FILE gist", "explain FILE chen_sqrt", NULL});
    nothing_is_wider_than(80, tables);
    cli.columns = "64";
    nothing_is_wider_than(64, tables);
    cli.columns = NULL;
}

DT_TEST_GROUP(explain)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tensor_is_there_between_its_uses_unless_it_waits_elsewhere),
        cmocka_unit_test(layers_and_policies_are_explained_by_their_rules),
        cmocka_unit_test(options_are_those_in_force),
        cmocka_unit_test(backward_stands_over_its_first_op),
        cmocka_unit_test(a_layer_that_is_fused_is_explained_where_it_is),
        cmocka_unit_test(what_there_is_not_is_refused_with_the_nearest),
        cmocka_unit_test(a_configuration_is_checked_and_printed),
        cmocka_unit_test(there_is_help_on_keys_layers_and_commands),
        cmocka_unit_test(help_on_a_policy_teaches_it),
        cmocka_unit_test(there_is_help_on_words_values_and_what_is_listed),
        cmocka_unit_test(the_glossary_of_the_pages_is_the_programs),
        cmocka_unit_test(the_tutorials_words_have_help),
        cmocka_unit_test(no_two_names_are_cut_to_the_same),
        cmocka_unit_test(nothing_is_wider_than_a_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
