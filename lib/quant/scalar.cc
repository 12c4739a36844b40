#include "quant/kernels.h"
