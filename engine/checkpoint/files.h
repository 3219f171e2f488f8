/* What the folder of a run's checkpoints and the files in it are called. */
#ifndef DT_ENGINE_CHECKPOINT_FILES_H
#define DT_ENGINE_CHECKPOINT_FILES_H

#define DT_CHECKPOINTS "checkpoints" /* in the run's directory */
#define DT_CHECKPOINT_MODEL "model.safetensors"
#define DT_CHECKPOINT_STATE "state.safetensors"
#define DT_CHECKPOINT_MANIFEST "manifest.json"

#endif
