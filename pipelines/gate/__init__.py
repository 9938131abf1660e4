"""`hwmark gate`: may these brokers be stopped now? What is known in, a judgement out; no clock, no cluster."""
