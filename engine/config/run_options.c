/* The tables of a run's sections, the checks that a table cannot make, and the reference page. */
#include "engine/config/run_options.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/numbers_text.h"
#include "engine/config/nearest.h"
#include "engine/tier.h"

static const char *const attention_words[] = {"efficient", "naive", NULL};
static const char *const on_error_words[] = {"fail", "skip", NULL};
static const char *const target_words[] = {"labels", "input", NULL};
static const char *const update_words[] = {"step", "early", NULL};
static const char *const optimizer_words[] = {"sgd", "adam", "adamw", "lion", NULL};
static const char *const packed_words[] = {"sgd8", "adam8", "adamw8", "lion8"};
static const char *const states_words[] = {"fp32", "8bit", NULL};
static const char *const schedule_words[] = {"constant", "step", "cosine", "linear", NULL};
static const char *const profile_words[] = {"auto", NULL};
static const char *const cache_words[] = {"auto", "none", NULL};
static const char *const precision_words[] = {"fp32", "tf32", "bf16", "auto", NULL};
static const char *const algorithm_words[] = {"fast", "small", "fit", NULL};
static const char *const best_words[] = {"off", "loss", "top1", NULL};
static const char *const device_words[] = {"auto", "cpu", "cuda", NULL};

const char *dt_best_name(dt_best b)
{
    return best_words[b];
}

#define END                                                                                        \
    {                                                                                              \
        NULL, DT_OPT_I64, 0, NULL, 0, 0, NULL, NULL, NULL                                          \
    }
/* clang-format off */
#define AT(f) offsetof(dt_model_section, f)
static const dt_opt model_rows[] = {
    {"name", DT_OPT_STR, AT(name), "", 0, 0, NULL, NULL, "built-in network ('dnntrain list models' names them); not given: the layer sections of the file, and resnet50 if there are none"},
    {"classes", DT_OPT_I64, AT(classes), "0", 0, 1e6, NULL, NULL, "outputs of the network; 0: the model's own number, or what a network of layers ends in"},
    {"image", DT_OPT_SIDES, AT(image), "0", 0, 16384, NULL, "pixels", "height and width of the input; 416x608 where they differ; 0: the model's own"},
    {"channels", DT_OPT_I64, AT(channels), "0", 0, 65536, NULL, NULL, "channels of the input: 1 for grey pictures, or as many as source = tensors has; 0: the model's own, and 3 of a network of layers"},
    {"width", DT_OPT_I64, AT(width), "0", 0, 65536, NULL, "channels", "channels of the first stage, with which all others scale (64 is standard); of transformers and LSTMs those of a token; 0: the model's own"},
    {"counts", DT_OPT_LIST, AT(counts_text), "", 0, 0, NULL, "blocks", "depth of each stage, for networks that have stages: 3,4,23,3 makes resnet101 of resnet50, 22,22,24,24,24 VGG-116 of vgg19; not given: the model's own"},
    {"layers", DT_OPT_I64, AT(layers), "0", 0, 4096, NULL, NULL, "number of transformer blocks, or of stacked LSTMs; 0: the model's own"},
    {"heads", DT_OPT_I64, AT(heads), "0", 0, 4096, NULL, NULL, "number of attention heads; 0: the model's own"},
    {"vocab", DT_OPT_I64, AT(vocab), "0", 0, 1048576, NULL, "tokens", "number of different tokens; 0: classes, or the model's own if that is 0 too"},
    {"context", DT_OPT_I64, AT(context), "0", 0, 1048576, NULL, "tokens", "length of a sequence; 0: the model's own"},
    {"tiles", DT_OPT_I64, AT(tiles), "0", 0, 16, NULL, NULL, "number of tiles that the outputs of each linear layer are cut into, which changes the order of sums; 0: none"},
    {"head_tiles", DT_OPT_I64, AT(head_tiles), "0", 0, 1024, NULL, NULL, "number of tiles that the vocabulary is cut into, with its embedding, output layer and softmax, which changes the order of sums; 0: none"},
    {"attention", DT_OPT_ENUM, AT(attention), "efficient", 0, 0, attention_words, NULL, "efficient recomputes attention probabilities in backward, naive keeps them"},
    {"dropout", DT_OPT_F64, AT(dropout), "-1", -1, 0.99, NULL, NULL, "probability that a value is dropped, 0 to 0.99; -1: the model's own"},
    {"fuse", DT_OPT_BOOL, AT(fuse), "on", 0, 0, NULL, NULL, "compute a batchnorm or add layer together with the ReLU after it, as one layer"},
    {"weights", DT_OPT_PATH, AT(weights), "", 0, 0, NULL, NULL, "safetensors file to start from"},
    {"fresh", DT_OPT_LIST, AT(fresh), "", 0, 0, NULL, NULL, "weights that are not taken from that file and begin as without it, as fc.* for another number of classes: names, in which * stands for any letters"},
    END};
#undef AT
#define AT(f) offsetof(dt_data_opts, f)
static const dt_opt data_rows[] = {
    {"source", DT_OPT_STR, AT(source), "synthetic", 0, 0, NULL, NULL, "where samples come from; 'dnntrain list sources' names them"},
    {"path", DT_OPT_PATH, AT(path), "", 0, 0, NULL, NULL, "file or folder to train on"},
    {"eval_path", DT_OPT_PATH, AT(eval_path), "", 0, 0, NULL, NULL, "file or folder to evaluate on; not given: the source's own test split, if it has one. Class folders get the class numbers of those below path"},
    {"eval_share", DT_OPT_F64, AT(eval_share), "0", 0, 0.9, NULL, NULL, "share of the samples that is held out to evaluate on, 0.1 is a tenth; for data without a test split of its own and without eval_path. Which samples is the same in every run; of ready batches of source = tensors the last"},
    {"vocab", DT_OPT_PATH, AT(vocab), "", 0, 0, NULL, NULL, "of source = text: classes.txt of a run, whose bytes are the tokens here too, so that another text is learned from that run's weights; not given: the different bytes of path"},
    {"augment", DT_OPT_BOOL, AT(augment), "on", 0, 0, NULL, NULL, "randomly crop and flip pictures while training: those of the network's size (CIFAR) are shifted by up to 4 pixels, others cropped to 8 to 100 % of their area and resized. Digits are not flipped"},
    {"cutout", DT_OPT_I64, AT(cutout), "0", 0, 16384, NULL, "pixels", "side of a square, at a random place of each training picture, that is filled with the mean; only with augment = on; 0: none"},
    {"shuffle", DT_OPT_BOOL, AT(shuffle), "on", 0, 0, NULL, NULL, "visit samples in a new random order in each epoch; ready batches of source = tensors come in the order of their file"},
    {"mean", DT_OPT_LIST, AT(mean_text), "", 0, 0, NULL, NULL, "subtracted from pixels scaled to 0..1: one number, or three for R,G,B; not given: the source's own. Samples of source = tensors are taken as they are, and classify alone goes by it"},
    {"std", DT_OPT_LIST, AT(std_text), "", 0, 0, NULL, NULL, "divides pixels, after mean was subtracted: one number, or three for R,G,B; not given: the source's own. Of source = tensors as mean"},
    {"ignore_label", DT_OPT_I64, AT(ignore_label), "-100", INT32_MIN, INT32_MAX, NULL, NULL, "label of samples, pixels or positions that loss, gradients and accuracy ignore, as PyTorch's ignore_index does; only for source = tensors, and where labels are values NaN is that"},
    {"target", DT_OPT_ENUM, AT(target), "labels", 0, 0, target_words, NULL, "what a loss of values (mse and others) compares with: labels of the source, or the input itself, as an autoencoder learns it; then any source of pictures will do"},
    {"on_error", DT_OPT_ENUM, AT(on_error), "fail", 0, 0, on_error_words, NULL, "what happens at a bad sample: fail ends the run, skip leaves the sample out"},
    {"max_skips", DT_OPT_I64, AT(max_skips), "100", 0, 1e9, NULL, "samples", "with on_error = skip, how many different bad samples may be left out; one more ends the run"},
    {"samples", DT_OPT_I64, AT(samples), "8192", 1, 1e9, NULL, "samples", "length of an epoch of the synthetic source; if the network has more than samples / 64 classes, only that many occur, but at least two"},
    {"ahead", DT_OPT_I64, AT(ahead), "2", 1, 16, NULL, "batches", "batches to decode ahead of the step"},
    END};
#undef AT
#define AT(f) offsetof(dt_train_opts, f)
static const dt_opt train_rows[] = {
    {"batch", DT_OPT_I64, AT(batch), "32", 1, 1048576, NULL, "samples", "samples of a step"},
    {"micro_batch", DT_OPT_I64, AT(micro_batch), "0", 0, 1048576, NULL, "samples", "samples to compute at once; gradients of a batch are added up; must divide batch; 0: the whole batch"},
    {"steps", DT_OPT_I64, AT(steps), "0", 0, 1e15, NULL, "steps", "length of the run; with neither steps nor epochs: 100 steps"},
    {"epochs", DT_OPT_I64, AT(epochs), "0", 0, 1e9, NULL, "epochs", "length of the run in passes over the data; if steps is given too, the run ends at whichever comes first"},
    {"optimizer", DT_OPT_ENUM, AT(optimizer), "sgd", 0, 0, optimizer_words, NULL, "update rule; sgd, adam and adamw as in PyTorch, lion as published. adam adds weight decay to the gradients, adamw and lion subtract it from the weights"},
    {"lr", DT_OPT_F64, AT(lr), "0.1", 1e-12, 1e6, NULL, NULL, "learning rate"},
    {"momentum", DT_OPT_F64, AT(momentum), "0.9", 0, 0.999999, NULL, NULL, "momentum of sgd"},
    {"nesterov", DT_OPT_BOOL, AT(nesterov), "off", 0, 0, NULL, NULL, "use Nesterov's momentum with sgd"},
    {"beta1", DT_OPT_F64, AT(beta1), "0.9", 0, 0.999999, NULL, NULL, "decay rate of the mean gradient, for adam and adamw; for lion of the mean whose sign it steps by"},
    {"beta2", DT_OPT_F64, AT(beta2), "0.999", 0, 0.9999999, NULL, NULL, "decay rate of the mean squared gradient, for adam and adamw; for lion, whose paper has 0.99, of the mean gradient that it keeps"},
    {"eps", DT_OPT_F64, AT(eps), "1e-8", 1e-30, 1, NULL, NULL, "added to the denominator of adam and adamw"},
    {"weight_decay", DT_OPT_F64, AT(weight_decay), "1e-4", 0, 1e3, NULL, NULL, "share of the weights that is added to their gradients; with adamw and lion, share times lr that is subtracted from the weights"},
    {"states", DT_OPT_ENUM, AT(states), "fp32", 0, 0, states_words, NULL, "type of the moments that the optimizer keeps. 8bit: a byte each, with a scale for every 2048 of them (block-wise quantization), which changes results; parameters of fewer than 4096 values keep fp32"},
    {"no_decay", DT_OPT_BOOL, AT(no_decay), "off", 0, 0, NULL, NULL, "exempt biases and the weights of norms, that is all parameters of one dimension, from weight decay"},
    {"clip", DT_OPT_F64, AT(clip), "0", 0, 1e12, NULL, NULL, "largest norm of all gradients together; larger ones are scaled down to it; 0: no limit"},
    {"update", DT_OPT_ENUM, AT(update), "step", 0, 0, update_words, NULL, "when parameters are updated: step: after all gradients; early: each as soon as its gradient is complete, which saves memory and changes no bit. early needs one micro-batch and, unless memory.generations = 2, clip = 0 and finite = off"},
    {"finite", DT_OPT_BOOL, AT(finite), "on", 0, 0, NULL, NULL, "check that all gradients and new statistics are finite before they are used, and stop otherwise; the loss is checked in any case"},
    {"freeze", DT_OPT_LIST, AT(freeze), "", 0, 0, NULL, NULL, "layers that stay as they are while those behind them are trained: names, in which * stands for any letters, as in features.*; they compute as in an evaluation"},
    {"rates", DT_OPT_LIST, AT(rates), "", 0, 0, NULL, NULL, "layers that learn at other rates than the rest: names, in which * stands for any letters, each with what lr is multiplied by, as in fc:10,layer1.*:0.1; of several that match a layer the last one holds"},
    {"label_smoothing", DT_OPT_F64, AT(label_smoothing), "0", 0, 0.999999, NULL, NULL, "share of each label that is spread over all classes while training"},
    {"schedule", DT_OPT_ENUM, AT(schedule), "constant", 0, 0, schedule_words, NULL, "how lr changes: constant: not at all; step: times gamma at each milestone; cosine, linear: after warmup from lr to final_lr at the end of the run"},
    {"warmup", DT_OPT_STR, AT(warmup_text), "0", 0, 0, NULL, "steps", "steps, or epochs as in 5ep, in which lr rises linearly from nearly 0; 0: none"},
    {"final_lr", DT_OPT_F64, AT(final_lr), "0", 0, 1e6, NULL, NULL, "lr at the end of the run, for schedule = cosine or linear"},
    {"milestones", DT_OPT_LIST, AT(milestones_text), "", 0, 0, NULL, "epochs", "epochs at which schedule = step lowers lr, in rising order, as 30,60,80"},
    {"gamma", DT_OPT_F64, AT(gamma), "0.1", 1e-12, 1, NULL, NULL, "factor that schedule = step multiplies lr by at each milestone"},
    {"precision", DT_OPT_ENUM, AT(precision), "fp32", 0, 0, precision_words, NULL, "type of values and their gradients; weights, sums and statistics stay fp32. tf32, on cuda only: factors of products may be rounded to 10 bits of mantissa. bf16: half the bytes. auto: bf16 on cuda and on processors with AMX or AVX512-BF16, else fp32"},
    {"seed", DT_OPT_I64, AT(seed), "1", 0, 0x1p63, NULL, NULL, "seed of all random numbers of the run"},
    {"eval_every", DT_OPT_I64, AT(eval_every), "1", 0, 1e9, NULL, "epochs", "epochs between evaluations; 0: only at the end"},
    {"patience", DT_OPT_I64, AT(patience), "0", 0, 1e9, NULL, "evaluations", "evaluations in a row that are no better than the best before them, by checkpoint.best, after which the run ends; 0: it goes on to its end"},
    {"dump_gradients", DT_OPT_PATH, AT(dump_gradients), "", 0, 0, NULL, NULL, "safetensors file to write the gradients of the first step to, before clipping and weight decay"},
    {"drop_last", DT_OPT_BOOL, AT(drop_last), "off", 0, 0, NULL, NULL, "skip the last batch of an epoch if it is not full"},
    {"report", DT_OPT_BOOL, AT(report), "on", 0, 0, NULL, NULL, "write report.html to the run directory: a page on what was learned and on the plan"},
    END};
#undef AT
#define AT(f) offsetof(dt_device_opts, f)
static const dt_opt device_rows[] = {
    {"kind", DT_OPT_ENUM, AT(kind), "auto", 0, 0, device_words, NULL, "device that computes; auto: cuda if the build has it and a card answers, else cpu"},
    {"card", DT_OPT_STR, AT(card), "", 0, 0, NULL, NULL, "card that plan, sweep, compare and explain make plans for; it need not be here. 'dnntrain list cards' names cards; those marked 'simulated alone' are only for memory.simulate"},
    {"threads", DT_OPT_I64, AT(threads), "0", 0, 1024, NULL, NULL, "number of threads that compute; 0: as many as OMP_NUM_THREADS says, else all cores that this process may use, but no more than a control group gives it the time of"},
    END};
#undef AT
#define AT(f) offsetof(dt_memory_opts, f)
static const dt_opt memory_rows[] = {
    {"policy", DT_OPT_LIST, AT(policy), "keep_all", 0, 0, NULL, NULL, "policies that save memory, applied one after another; 'dnntrain list policies' names them"},
    {"masks", DT_OPT_BOOL, AT(masks), "on", 0, 0, NULL, NULL, "keep one bit per value, in place of the values, of ReLUs whose output a concatenation holds as well and no other backward reads"},
    {"algorithms", DT_OPT_ENUM, AT(algorithms), "fast", 0, 0, algorithm_words, NULL, "which algorithm computes a layer that has several; fast: the fastest; small: the one with the least scratch; fit: the fastest that keep the peak within that of small, or device_budget if higher, and delay no step by moving more"},
    {"device_budget", DT_OPT_BYTES, AT(device_budget), "0", 0, 0, NULL, NULL, "most memory the device may use; 0: what the machine has"},
    {"host_budget", DT_OPT_BYTES, AT(host_budget), "0", 0, 0, NULL, NULL, "most host memory that moved tensors may take; 0: what the machine has"},
    {"disk_budget", DT_OPT_BYTES, AT(disk_budget), "0", 0, 0, NULL, NULL, "most disk space that moved tensors may take; 0: what is free"},
    {"tier", DT_OPT_STR, AT(tier), "auto", 0, 0, NULL, NULL, "where moved tensors wait ('dnntrain list tiers' names the tiers); auto: on the host and, if disk_path is given, on the disk what host_budget has no space for"},
    {"disk_path", DT_OPT_PATH, AT(disk_path), "", 0, 0, NULL, NULL, "folder for the file of the disk tier; default with tier = disk: /var/tmp"},
    {"copy_threads", DT_OPT_BOOL, AT(copy_threads), "off", 0, 0, NULL, NULL, "copy to and from the host by one thread per direction, beside the layers; off: by the computing threads between layers. For machines with cores to spare"},
    {"ahead", DT_OPT_BYTES, AT(ahead), "64MiB", 0, 0, NULL, NULL, "bytes of parameters, gradients and moments that live on the host or disk to fetch before they are needed, where copies can hide; as many may be on their way back. Fewer, where more would not fit device_budget"},
    {"slice", DT_OPT_BYTES, AT(slice), "32MiB", 0, 0, NULL, NULL, "size of the slices in which an update fetches and returns a larger parameter, gradient or moment that lives on the host or disk, with the same bits; whole MiB; 0: no slices"},
    {"generations", DT_OPT_I64, AT(generations), "1", 1, 2, NULL, NULL, "number of versions on the disk of parameters, moments and running statistics that live there. 2: a step writes new ones, so a failed step is discarded whole; early updates may use clip and finite if all of these live on the disk"},
    {"checksum", DT_OPT_BOOL, AT(checksum), "off", 0, 0, NULL, NULL, "compute checksums of what is written to the disk, and compare them when it is read back"},
    {"profile", DT_OPT_PATH, AT(profile), "", 0, 0, profile_words, NULL, "file of 'dnntrain profile', by whose measurements steps are predicted, plans compared and packed tensors sized. auto: the one kept for this machine and network; a run that finds none measures some steps first and keeps one"},
    {"cache", DT_OPT_PATH, AT(cache), "auto", 0, 0, cache_words, NULL, "folder that keeps profiles and what the policy auto found, for later runs. auto: dnntrain in $XDG_CACHE_HOME, or in ~/.cache; none: nothing is looked up or kept"},
    {"any_profile", DT_OPT_BOOL, AT(any_profile), "off", 0, 0, NULL, NULL, "accept a profile of another machine, version or precision"},
    {"simulate", DT_OPT_STR, AT(simulate), "", 0, 0, NULL, NULL, "predict steps by the constants of this card, in place of this machine's; 'dnntrain list cards' names cards. own: of the one in section [card]"},
    {"calibrate", DT_OPT_F64, AT(calibrate), "0", 0, 1e12, NULL, NULL, "samples per second with everything kept, to which the simulated card's arithmetic is scaled, that of variants by the same factor; 0: as its constants say"},
    {"pool", DT_OPT_STR, AT(pool), "greedy", 0, 0, NULL, NULL, "how tensors are assigned addresses; 'dnntrain list pools' names the pools"},
    {"account", DT_OPT_STR, AT(account), "", 0, 0, NULL, NULL, "count memory as a paper does, and show its figures in place of a plan; nothing is run. 'dnntrain list accounts' names them"},
    {"account_workspace", DT_OPT_BYTES, AT(account_workspace), "0", 0, 0, NULL, NULL, "largest workspace that an account assumes for a paper's fastest algorithms"},
    {"account_density", DT_OPT_F64, AT(account_density), "1", 0, 1, NULL, NULL, "share of nonzero values behind a ReLU, by which an account counts sparse matrices"},
    END};
#undef AT
#define AT(f) offsetof(dt_card_opts, f)
static const dt_opt card_rows[] = {
    {"title", DT_OPT_STR, AT(title), "", 0, 0, NULL, NULL, "what it is called where times are shown"},
    {"like", DT_OPT_STR, AT(like), "", 0, 0, NULL, NULL, "card of 'dnntrain list cards' that it is like in what the keys below do not say. Not given: these say fp32, bandwidth and link"},
    {"fp32", DT_OPT_F64, AT(fp32), "0", 0, 1e6, NULL, NULL, "10^12 operations a second in fp32, as its data sheet says"},
    {"half", DT_OPT_F64, AT(half), "0", 0, 1e6, NULL, NULL, "the same in 16 bits with sums in fp32, by tensor cores, of which tf32 has half; 0: both as in fp32, where that is given"},
    {"bandwidth", DT_OPT_F64, AT(bandwidth), "0", 0, 1e6, NULL, NULL, "10^9 bytes a second of its memory, as its data sheet says"},
    {"link", DT_OPT_F64, AT(link), "0", 0, 1e6, NULL, NULL, "10^9 bytes a second of its link, each way, as data sheets say: 15.75 of PCIe 3 with 16 lanes, 31.5 of PCIe 4"},
    {"disk_out", DT_OPT_F64, AT(disk_out), "0", 0, 1e6, NULL, NULL, "10^9 bytes a second that the disk beside it takes; 0: 1.6, or what the card it is like has"},
    {"disk_in", DT_OPT_F64, AT(disk_in), "0", 0, 1e6, NULL, NULL, "10^9 bytes a second that this disk gives back"},
    END};
#undef AT
#define AT(f) offsetof(dt_checkpoint_opts, f)
static const dt_opt checkpoint_rows[] = {
    {"every", DT_OPT_STR, AT(every), "0", 0, 0, NULL, NULL, "when to save a checkpoint: 500 is every 500 steps, 2ep every 2 epochs; 0: only at the end"},
    {"keep_last", DT_OPT_I64, AT(keep_last), "2", 0, 1e9, NULL, NULL, "number of checkpoints to keep; older ones are removed; 0: all"},
    {"best", DT_OPT_ENUM, AT(best), "off", 0, 0, best_words, NULL, "also save and keep the checkpoint with the lowest loss, or the highest top1, in evaluation"},
    {"resume", DT_OPT_STR, AT(resume), "no", 0, 0, NULL, NULL, "what to resume; no: nothing; auto: the run in run.dir, or start it; a folder: that run or checkpoint"},
    END};
#undef AT
#define AT(f) offsetof(dt_dir_opts, f)
static const dt_opt run_rows[] = {
    {"dir", DT_OPT_PATH, AT(dir), "", 0, 0, NULL, NULL, "folder for everything the run writes; not given: runs/MODEL-POLICY-N, the next N, below the folder where the command is run"},
    {"overwrite", DT_OPT_BOOL, AT(overwrite), "off", 0, 0, NULL, NULL, "use dir even if it holds a run, which is moved aside, to DIR.old-1, DIR.old-2 ..."},
    END};
#undef AT
#define AT(f) offsetof(dt_run_options, f)
const dt_run_section dt_run_sections[] = {
    {"model", model_rows, AT(model), "The network."},
    {"data", data_rows, AT(data), "What it learns from."},
    {"train", train_rows, AT(train), "How it learns, and for how long."},
    {"device", device_rows, AT(device), "What computes."},
    {"memory", memory_rows, AT(memory), "What may be moved, recomputed or encoded to save memory."},
    {"card", card_rows, AT(card), "A card of your own, by whose data sheet memory.simulate = own predicts."},
    {"checkpoint", checkpoint_rows, AT(checkpoint), "Saving checkpoints, and resuming from them."},
    {"run", run_rows, AT(run), "Where results go."},
    {NULL, NULL, 0, NULL}};
#undef AT
/* clang-format on */

/* "FILE:LINE" of a key, or "--set", for messages; a key that is not given is a default. */
static const char *where(
    const dt_config *c, const char *section, const char *key, char *text, size_t room)
{
    const char *file = NULL;
    int line = 0;
    (void)dt_config_get(c, section, key, &file, &line);
    return dt_config_place(text, room, file, line);
}

static dt_status fail_at(
    const dt_config *c, const char *section, const char *key, dt_err *err, const char *what)
{
    char at[512];
    return DT_FAIL(
        err, DT_E_CONFIG, "%s: [%s] %s", where(c, section, key, at, sizeof at), section, what);
}

/* Cut the next item of a comma-separated list without blanks into item; NULL at the end. One that
 * is too long is no number any more. */
static const char *next_item(const char *list, char *item, size_t room)
{
    const size_t n = strcspn(list, ",");
    snprintf(item, room, n < room ? "%.*s" : "%.*s...", (int)(n < room ? n : room - 4), list);
    return list[n] == ',' ? list + n + 1 : NULL;
}

/* Three numbers, or one for all channels. */
static dt_status read_channels(const dt_config *c, const char *key, const char *text, double least,
    float *to, int *n, dt_err *err)
{
    *n = 0;
    for (const char *s = text; s != NULL;) {
        char item[64], what[160];
        double v;
        s = next_item(s, item, sizeof item);
        if (!dt_parse_f64(item, &v) || !(v >= least) || !(v <= 1e6) || *n == DT_RUN_CHANNELS) {
            dt_snprintf(what, sizeof what, "%s: '%s': write one number or three, each %g..1e6", key,
                item, least);
            return fail_at(c, "data", key, err, what);
        }
        to[(*n)++] = (float)v;
    }
    if (*n == 2)
        return fail_at(c, "data", key, err, "mean and std take one number or three, not two");
    for (; *n == 1 || *n == 2; (*n)++)
        to[*n] = to[0];
    return DT_OK;
}

static dt_status check_data(const dt_config *c, dt_data_opts *d, dt_err *err)
{
    const dt_status st = read_channels(c, "mean", d->mean_text, -1e6, d->mean, &d->n_mean, err);
    const dt_status st2 = read_channels(c, "std", d->std_text, 1e-6, d->std, &d->n_std, err);
    return st != DT_OK ? st : st2;
}

/* Which counts a model takes it says itself. */
static dt_status read_counts(const dt_config *c, dt_model_section *m, dt_err *err)
{
    m->n_count = 0;
    for (const char *s = m->counts_text; s != NULL;) {
        char item[32], what[96];
        s = next_item(s, item, sizeof item);
        int64_t v;
        if (!dt_parse_i64(item, &v) || v < 1 || m->n_count == DT_RUN_STAGES) {
            snprintf(what, sizeof what, "counts: '%s': at most %d whole numbers from 1", item,
                DT_RUN_STAGES);
            return fail_at(c, "model", "counts", err, what);
        }
        m->count[m->n_count++] = v;
    }
    return DT_OK;
}

static dt_status check_batch(const dt_config *c, dt_train_opts *t, dt_err *err)
{
    char what[256];
    if (t->micro_batch == 0)
        t->micro_batch = t->batch;
    if (t->batch % t->micro_batch == 0)
        return DT_OK;
    int64_t fits = t->micro_batch < t->batch ? t->micro_batch : t->batch;
    while (t->batch % fits != 0)
        fits--;
    snprintf(what, sizeof what,
        "micro_batch = %" PRId64 " does not divide batch = %" PRId64 "; micro_batch = %" PRId64
        " with batch = %" PRId64 " does",
        t->micro_batch, t->batch, fits, t->batch);
    return fail_at(c, "train", "micro_batch", err, what);
}

/* "500" is steps, "5ep" epochs; the other of the two is 0. */
static bool read_steps(const char *text, int64_t most, int64_t *steps, int64_t *epochs)
{
    char number[32];
    const size_t n = strlen(text);
    const bool ep = n > 2 && strcmp(text + n - 2, "ep") == 0;
    int64_t v = 0;
    *steps = *epochs = 0;
    if (n >= sizeof number)
        return false;
    snprintf(number, sizeof number, "%.*s", (int)(ep ? n - 2 : n), text);
    if (!dt_parse_i64(number, &v) || v < 0 || v > most)
        return false;
    *(ep ? epochs : steps) = v;
    return true;
}

static dt_status check_warmup(const dt_config *c, dt_train_opts *t, dt_err *err)
{
    char what[160];
    if (read_steps(t->warmup_text, INT64_C(1000000000), &t->warmup_steps, &t->warmup_epochs))
        return DT_OK;
    snprintf(what, sizeof what,
        "warmup: '%.40s': write steps, as 500, or epochs, as 5ep; at most 1e9", t->warmup_text);
    return fail_at(c, "train", "warmup", err, what);
}

/* Updates that are made while gradients of other parameters are still to come. */
static dt_status check_update(
    const dt_config *c, const dt_train_opts *t, const dt_memory_opts *m, dt_err *err)
{
    if (t->update != DT_UPDATE_EARLY)
        return DT_OK;
    if (t->micro_batch < t->batch)
        return fail_at(c, "train", "update", err, "update = early: " DT_EARLY_WANTS_ONE_PART);
    if (t->clip > 0 && m->generations < 2)
        return fail_at(c, "train", "update", err,
            "update = early: the norm to clip by is known only when all gradients are; set clip = "
            "0, or update = step, or, with all that outlives a step on the disk, "
            "memory.generations = 2");
    if (t->finite && m->generations < 2)
        return fail_at(c, "train", "update", err,
            "update = early: when a gradient is found that is not finite, other parameters are "
            "updated already and the step cannot be discarded; set finite = off, or update = step, "
            "or, with all that outlives a step on the disk, memory.generations = 2");
    if (t->dump_gradients != NULL)
        return fail_at(c, "train", "update", err,
            "update = early: no gradient waits to be written by dump_gradients; set update = step");
    return DT_OK;
}

static dt_status check_memory(const dt_config *c, const dt_memory_opts *m, dt_err *err)
{
    return m->slice % DT_PART_UNIT == 0
               ? DT_OK
               : fail_at(c, "memory", "slice", err,
                     "slice must be a multiple of 1MiB, or 0 for updates that take all at once");
}

static dt_status check_optimizer(const dt_config *c, const dt_train_opts *t, dt_err *err)
{
    if (t->nesterov && (t->optimizer != DTI_OPTIMIZER_SGD || t->momentum <= 0))
        return fail_at(
            c, "train", "nesterov", err, "nesterov needs optimizer = sgd with a momentum above 0");
    if (t->states != DT_STATES_FP32 && dt_optimizer_state(t) == 0)
        return fail_at(c, "train", "states", err,
            "states = 8bit: sgd without momentum keeps no moments; set momentum above 0, or states "
            "= fp32");
    return DT_OK;
}

bool dti_schedule_falls(const dt_train_opts *t)
{
    return t->schedule == DT_SCHEDULE_COSINE || t->schedule == DT_SCHEDULE_LINEAR;
}

int dt_optimizer_state(const dt_train_opts *t)
{
    switch (t->optimizer) {
    case DTI_OPTIMIZER_SGD:
        return t->momentum > 0 ? 1 : 0;
    case DTI_OPTIMIZER_LION:
        return 1;
    default:
        return 2;
    }
}

const char *dt_optimizer_name(const dt_train_opts *t)
{
    return optimizer_words[t->optimizer];
}

const char *dt_optimizer_packed(const dt_train_opts *t)
{
    return t->states == DT_STATES_8BIT ? packed_words[t->optimizer] : NULL;
}

const char *dt_optimizer_of(const char *op, bool *packed)
{
    for (size_t i = 0; optimizer_words[i] != NULL; i++) {
        *packed = strcmp(op, packed_words[i]) == 0;
        if (*packed || strcmp(op, optimizer_words[i]) == 0)
            return optimizer_words[i];
    }
    return NULL;
}

static dt_status check_schedule(const dt_config *c, dt_train_opts *t, dt_err *err)
{
    if (t->steps == 0 && t->epochs == 0)
        t->steps = DT_RUN_DEFAULT_STEPS;
    const bool steps = t->schedule == DT_SCHEDULE_STEP;
    if (steps && t->milestones_text == NULL)
        return fail_at(
            c, "train", "schedule", err, "schedule = step needs milestones, as 30,60,80");
    if (!steps && t->milestones_text != NULL)
        return fail_at(c, "train", "milestones", err, "milestones need schedule = step");
    if (t->final_lr > 0 && !dti_schedule_falls(t))
        return fail_at(
            c, "train", "final_lr", err, "final_lr needs schedule = cosine or schedule = linear");
    t->n_milestone = 0;
    for (const char *s = t->milestones_text; s != NULL;) {
        char item[32];
        int64_t v, last = t->n_milestone > 0 ? t->milestone[t->n_milestone - 1] : 0;
        s = next_item(s, item, sizeof item);
        if (!dt_parse_i64(item, &v) || v <= last || t->n_milestone == DT_RUN_MILESTONES) {
            char what[160];
            snprintf(what, sizeof what,
                "milestones: '%s': at most %d whole epochs from 1, commas between them, each above "
                "the one before",
                item, DT_RUN_MILESTONES);
            return fail_at(c, "train", "milestones", err, what);
        }
        t->milestone[t->n_milestone++] = v;
    }
    return DT_OK;
}

/* Evaluations after which a run has learned enough. */
static dt_status check_patience(
    const dt_config *c, const dt_train_opts *t, const dt_checkpoint_opts *o, dt_err *err)
{
    if (t->patience > 0 && o->best == DT_BEST_OFF)
        return fail_at(c, "train", "patience", err,
            "patience needs checkpoint.best = loss or top1, which says what better is and keeps "
            "the best weights");
    if (t->patience > 0 && t->eval_every == 0)
        return fail_at(c, "train", "patience", err,
            "patience counts evaluations, and with eval_every = 0 there is one, at the end");
    return DT_OK;
}

static dt_status check_checkpoint(const dt_config *c, dt_checkpoint_opts *o, dt_err *err)
{
    char what[160];
    if (read_steps(o->every, INT64_C(1000000000000000), &o->every_steps, &o->every_epochs))
        return DT_OK;
    snprintf(what, sizeof what,
        "every = %.60s: write a number of steps, as 500, or of epochs, as 2ep", o->every);
    return fail_at(c, "checkpoint", "every", err, what);
}

/* A name of ours or layer sections of one's own; resnet50 stands in for neither. */
static dt_status check_model(const dt_config *c, dt_model_section *m, dt_err *err)
{
    dt_section layer = {0};
    for (size_t i = 0; i < dt_config_section_count(c) && layer.text == NULL; i++) {
        const dt_section s = dt_config_section(c, i);
        if (s.name[0] != '\0')
            layer = s;
    }
    char what[320], at[32] = "--set";
    if (m->name != NULL && layer.text != NULL) {
        if (layer.line > 0)
            snprintf(at, sizeof at, "line %d", layer.line);
        snprintf(what, sizeof what,
            "name = %.80s, but %s has [%.100s]: a network is one of ours or made of layer sections",
            m->name, at, layer.text);
        return fail_at(c, "model", "name", err, what);
    }
    if (m->name == NULL && layer.text == NULL)
        m->name = "resnet50";
    if (m->dropout < 0 && m->dropout > -1)
        return fail_at(c, "model", "dropout", err, "dropout must be 0..0.99, or -1");
    return DT_OK;
}

static dt_status first_of(dt_status first, dt_status then)
{
    return first == DT_OK ? then : first;
}

dt_status dt_run_options_bind(dt_config *c, dt_run_options *o, dt_err *err)
{
    memset(o, 0, sizeof *o);
    dt_status first = DT_OK;
    for (const dt_run_section *s = dt_run_sections; s->name != NULL; s++) {
        const dt_status st = dt_config_bind(c, s->name, s->rows, (char *)o + s->offset, err);
        if (st == DT_E_NOMEM)
            return st;
        first = first_of(first, st);
    }
    dti_config_mark_passing(c, "checkpoint", "resume");
    /* a value that was refused left its default, so these hold for what is there */
    first = first_of(first, check_model(c, &o->model, err));
    first = first_of(first, read_counts(c, &o->model, err));
    first = first_of(first, check_data(c, &o->data, err));
    first = first_of(first, check_batch(c, &o->train, err)); /* micro_batch = 0 is replaced */
    first = first_of(first, check_optimizer(c, &o->train, err));
    first = first_of(first, check_update(c, &o->train, &o->memory, err));
    first = first_of(first, check_memory(c, &o->memory, err));
    first = first_of(first, check_schedule(c, &o->train, err));
    first = first_of(first, check_warmup(c, &o->train, err));
    first = first_of(first, check_patience(c, &o->train, &o->checkpoint, err));
    return first_of(first, check_checkpoint(c, &o->checkpoint, err));
}

const char *dt_run_options_path(
    const dt_run_options *o, const dt_run_section *of, const dt_opt *row)
{
    const char *path;
    if (row->type != DT_OPT_PATH)
        return NULL;
    memcpy(&path, (const char *)o + of->offset + row->at, sizeof path);
    return path != NULL && !dti_is_choice(row, path) ? path : NULL;
}

const char *dt_run_options_meant(const char *word, char *to, size_t bytes)
{
    const char *dot = strchr(word, '.');
    for (const dt_run_section *s = dt_run_sections; dot != NULL && s->name != NULL; s++)
        if (strlen(s->name) == (size_t)(dot - word) &&
            strncmp(s->name, word, strlen(s->name)) == 0) {
            snprintf(to, bytes, "%s", word);
            return to;
        }
    enum { MOST_KEYS = 64 };
    for (int nearly = 0; nearly < 2; nearly++)
        for (const dt_run_section *s = dt_run_sections; s->name != NULL; s++) {
            const char *keys[MOST_KEYS + 1] = {NULL}, *key = NULL;
            for (size_t i = 0; i < MOST_KEYS && s->rows[i].key != NULL; i++) {
                keys[i] = s->rows[i].key;
                key = strcmp(keys[i], word) == 0 ? keys[i] : key;
            }
            if (key == NULL && nearly)
                key = dt_nearest(word, keys);
            if (key == NULL)
                continue;
            snprintf(to, bytes, "%s.%s", s->name, key);
            return to;
        }
    return NULL;
}

void dt_run_options_help(FILE *f)
{
    for (const dt_run_section *s = dt_run_sections; s->name != NULL; s++) {
        fprintf(f, "%s## [%s]\n\n%s\n\n", s == dt_run_sections ? "" : "\n", s->name, s->help);
        fprintf(f, "| %-14s | %-28s | %-9s | meaning |\n", "key", "value", "default");
        fprintf(f, "| %-14s | %-28s | %-9s | --- |\n", "---", "---", "---");
        for (const dt_opt *row = s->rows; row->key != NULL; row++) {
            char allowed[128], value[192];
            dt_opt_allowed(row, allowed, sizeof allowed);
            snprintf(value, sizeof value, "%s%s%s", allowed, row->unit != NULL ? " " : "",
                row->unit != NULL ? row->unit : "");
            fprintf(f, "| %-14s | %-28s | %-9s | %s |\n", row->key, value,
                row->fallback != NULL ? row->fallback : "required", row->help);
        }
    }
}

const char *dt_algorithms_name(int how)
{
    return algorithm_words[how];
}
