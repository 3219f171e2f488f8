/* The glossary and some notes, for `dnntrain help WORD`. */
#include "tools/help_words.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/compiler.h"
#include "session/run_dir.h"
#include "tools/terminal.h"

/* Words with commas between; what papers call so, "-": nothing else; what is meant. */
typedef struct entry {
    const char *words, *papers, *meaning;
} entry;

static const entry glossary[] = {
#define DT_WORD(words, papers, meaning) {words, papers, meaning},
#include "tools/glossary.def"
#undef DT_WORD
};

static const entry notes[] = {
    {"unit, bytes, size, KiB, MiB, GiB", "-",
        "Where bytes are set, 512, 1,048,576, 64KiB, 1.5GiB; KiB MiB GiB TiB count by 1024, KB MB "
        "GB TB by "
        "1000. Tables print the unit that fits, JSON and CSV whole bytes. One operation is an "
        "addition or a multiplication, so a multiply-add is two."},
    {"exit, exit code, error, status", "-",
        "Exit codes: 0 done, 1 internal error (a bug; of reproduce also rows that are off), 2 "
        "usage or configuration, 3 bad data or weights, 4 does not fit the budgets, 5 out of "
        "memory, 6 I/O, 7 not finite, 8 device, 9 run directory busy, 75 stopped by a signal (what "
        "was trained is saved; before the first step that is nothing), 134 internal error, by an "
        "assertion."},
    {"progress, progress line, img/s, tok/s, row/s, smoothed, data, left", "-",
        "The line of a run: step, loss, learning rate (lr), images, tokens or rows of a table a "
        "second, data N % "
        "(the share of the latest steps' time in which they waited for samples), time left. On a "
        "terminal the loss is smoothed, an exponential moving average of decay 0.9, and what the "
        "width has no columns for is left out, data first."},
    {"name, tensor name, .y, d., g., m0., m1., s0., s1., q., .wF, .wB, .ws, .istd, .f, .b, .bd, "
     ".bw, @",
        "-",
        "Of a layer X: X.y is what it writes, d.X the gradient of that, d.@X the one gradient of "
        "all "
        "that X adds; X.weight and X.bias are parameters, g.X.weight a gradient, m0.X.weight and "
        "m1.X.weight what the optimizer keeps of it (in 8 bits with the scales s0.X.weight), "
        "q.X.running_mean the next value of a "
        "statistic; "
        "X.wF and X.wB the weight as forward and backward want it, X.ws scratch, X.NAME what else "
        "it "
        "stashes for backward. A prime, X.y', is a value that was made again. Of ops: X.f is "
        "forward, "
        "X.b backward, or in two X.bd (of what it reads) and X.bw (of its weights), in.T and out.T "
        "copies of T, T.enc and T.dec packing."},
    {"export, pytorch, timm, hugging face, state_dict, load_state_dict", "-",
        "Weights go to PyTorch and back by tools/weights.py: `tools/weights.py to-torch "
        "RUN/" DT_RUN_WEIGHTS " FILE` (docs/commands.md). model.weights = FILE begins "
        "with weights of torchvision's names."},
    {"finetune, finetuning, fine-tune, fine-tuning, transfer, transfer learning", "-",
        "model.weights = FILE begins with weights that were trained before, model.fresh names "
        "those "
        "that begin anew, train.freeze the layers that stay as they are, train.rates those that "
        "learn "
        "slower (docs/commands.md, Another number of classes)."},
    {"imagefolder, class folders", "-",
        "data.source = images: below data.path a folder for each class, with its pictures."},
    {"segmentation, semantic segmentation, miou, mean_iou, iou", "-",
        "A class for every pixel, as segnet, fcn32s and fcn8s give: data.source = tensors has such "
        "labels, an evaluation the share of pixels that is right and mean_iou, the mean "
        "intersection over union, and `dnntrain classify --masks` writes a picture of classes."},
    {"dataloader, loader, num_workers", "-",
        "Threads read and decode data.ahead batches before their step; data.source says what they "
        "read, data.shuffle whether in a new order each epoch."},
    {"init, initialization, initialisation, xavier, glorot, kaiming", "-",
        "What weights begin as, unless model.weights names a file, by train.seed: conv normal by "
        "He's fan out and conv_transpose normal by the values that a result sums, both with biases "
        "of 0; fc, linear and lstm uniform, as PyTorch's; embedding, position, and linear where it "
        "has a sigma, normal of that deviation; of norms the weight 1 and the bias 0. There is no "
        "key for others: write a file with them."},
    {"bias", "-",
        "bias = off leaves out what conv, conv_transpose, fc, linear and lstm add to each output; "
        "train.no_decay = on leaves biases out of weight decay."},
    {"steplr, multisteplr, cosineannealinglr, lambdalr, onecyclelr", "-",
        "train.schedule says how lr changes: constant, step (by train.milestones and train.gamma), "
        "cosine or linear (to train.final_lr), after train.warmup. There are no others, nor "
        "functions of one's own."},
    {"multiheadattention, mha, attn_mask, key_padding_mask", "-",
        "[attention NAME] is multi-head attention of packed q, k and v. It sees all positions, or, "
        "with causal = on, those up to its own; there is no other mask."},
    {"ignore_index", "-",
        "data.ignore_label: samples, pixels or positions of that label have neither loss nor "
        "gradient, and are in no accuracy."},
    {"count_include_pad", "-",
        "include_pad of [avgpool NAME]: whether the mean counts the zeros around a map."},
    {"num_batches_tracked", "-",
        "No such count is kept, as running statistics go by batchnorm.momentum; model.weights "
        "passes over it, and PyTorch fills it in."},
    {"oom, out of memory", "-",
        "A run that does not fit its budgets, or the machine, is refused before its first step "
        "(exit "
        "code 4), with what would fit. `dnntrain plan CONFIG` says what it takes, `compare` and "
        "`sweep` what policies make of it."},
    {"residual, skip connection, shortcut", "-",
        "[add NAME] with input = A, B adds what two layers write, element by element."},
    {"evaluation, validation, accuracy", "-",
        "What is not learned from: data.eval_path names it where the source has no such part of "
        "its own, train.eval_every says how often, and `dnntrain eval RUN` evaluates once more."},
    {"environment, env, DT_ISA, DT_TRACE, ONEDNN_MAX_CPU_ISA, GOMP_SPINCOUNT, OMP_NUM_THREADS, "
     "OMP_WAIT_POLICY, COLUMNS, NO_COLOR, XDG_CACHE_HOME, TMPDIR",
        "-",
        "DT_ISA=plain, avx2, avx512, avx512_bf16 or amx: no better instructions than those, so the "
        "bits of a lesser processor. ONEDNN_MAX_CPU_ISA caps those of oneDNN, and with them "
        "which kernels of ours compute bf16. OMP_NUM_THREADS: how many threads compute where "
        "device.threads is 0. GOMP_SPINCOUNT and OMP_WAIT_POLICY: how long waiting threads spin; "
        "where neither is set, the first is for 100 microseconds. DT_TRACE=FILE: a line for each "
        "row of a plan that is run. "
        "COLUMNS: the width of tables. NO_COLOR: no colours. LC_ALL, LC_CTYPE, LANG: bars of block "
        "characters where they say UTF-8. XDG_CACHE_HOME: where dnntrain/ is, with profiles and "
        "fronts, unless memory.cache names a folder; else ~/.cache. TMPDIR: where sweep --verify "
        "puts its runs; else /tmp."},
};

/* Without the quotes of code, and without an s at its end: "`first`", "activations". */
static size_t stem(const char **word, size_t n)
{
    if (n > 2 && (*word)[0] == '`' && (*word)[n - 1] == '`') {
        ++*word;
        n -= 2;
    }
    return n > 1 && (*word)[n - 1] == 's' ? n - 1 : n;
}

/* Whether @word is one of @words. */
static bool among(const char *words, const char *word)
{
    const size_t n = stem(&word, strlen(word));
    for (const char *w = words, *end; *w != '\0'; w = end + strspn(end, ", ")) {
        end = w + strcspn(w, ",");
        const char *one = w;
        if (stem(&one, (size_t)(end - w)) == n && strncmp(one, word, n) == 0)
            return true;
    }
    return false;
}

static void print_entry(const entry *e)
{
    enum { INDENT = 4, TEXT_BYTES = 1024 };
    char text[TEXT_BYTES];
    snprintf(text, sizeof text, "%s: %s", e->words, e->meaning);
    dti_term_wrap(stdout, 0, INDENT, text);
    if (strcmp(e->papers, "-") == 0)
        return;
    printf("%*s", INDENT, "");
    snprintf(text, sizeof text, "in the papers: %s", e->papers);
    dti_term_wrap(stdout, INDENT, INDENT, text);
}

typedef bool means(const entry *e, const char *word);

static bool is_ours(const entry *e, const char *word)
{
    return among(e->words, word);
}

/* At the beginning of any word of what papers say, as that is no list: "rematerialization". */
static bool is_theirs(const entry *e, const char *word)
{
    enum { SHORTEST = 4 };
    const char *at = strlen(word) >= SHORTEST ? strstr(e->papers, word) : NULL;
    while (at != NULL && at > e->papers && isalnum((unsigned char)at[-1]))
        at = strstr(at + 1, word);
    return at != NULL;
}

static bool print_all(const entry *rows, size_t n, means *does_mean, const char *word, bool more)
{
    bool found = false;
    for (size_t i = 0; i < n; i++) {
        if (!does_mean(&rows[i], word))
            continue;
        if (more && !found)
            printf("\n");
        print_entry(&rows[i]);
        found = true;
    }
    return found;
}

bool dti_help_word(const char *word, bool more)
{
    return print_all(glossary, DT_COUNT(glossary), is_ours, word, more) ||
           print_all(notes, DT_COUNT(notes), is_ours, word, more);
}

bool dti_help_papers_word(const char *word)
{
    return print_all(glossary, DT_COUNT(glossary), is_theirs, word, false);
}

void dti_help_glossary(void)
{
    const bool table = !dti_terminal_of(stdout).tty;
    if (table)
        printf("| here | in the papers | |\n| --- | --- | --- |\n");
    for (size_t i = 0; i < DT_COUNT(glossary); i++) {
        const entry *e = &glossary[i];
        if (table)
            printf("| %s | %s | %s |\n", e->words, e->papers, e->meaning);
        else
            print_entry(e);
    }
}
