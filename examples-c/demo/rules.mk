# The demo, for ../../Makefile: `make demo`.

# One plug-in exports a .npy file in several forms, another checks and reads them: `make demo NPY=your.npy`.
NPY ?= examples-c/demo/data/temperatures.npy
PLUGIN := gcc -std=c99 -O2 -Wall -Wextra -Wpedantic -Wconversion -fPIC -shared -fvisibility=hidden -Iinclude

demo: $(DEMO_ENVIRONMENT) lib sim ## runs the demo (2 minutes), on your data: NPY=your.npy
	@mkdir -p build/demo
	@ln -sf "$(BUILT)"/libcai.so build/demo/libcai.so.1
	@$(PLUGIN) examples-c/demo/producer.c -o build/demo/libdemo_producer.so \
	    -L"$(BUILT)" -lcai -Wl,-rpath,'$$ORIGIN'
	@$(PLUGIN) $(addprefix examples-c/demo/,consumer.c statistics.c table.c) -o build/demo/libdemo_consumer.so \
	    -L"$(BUILT)" -lcai -lm -Wl,-rpath,'$$ORIGIN'
	@$(PY) examples-c/demo/demo.py build/demo "$(NPY)"
	@if [ -f "$(PYTHON_INCLUDE)/Python.h" ]; then \
	    echo; echo "A Python extension in plain C, on the simulated driver:"; echo; \
	    gcc -std=c99 -g -O1 -Wall -Wextra -fPIC -shared -Iinclude -isystem "$(SITE)/nvidia/cu13/include" \
	        -isystem "$(PYTHON_INCLUDE)" examples-c/08_python.c -o build/demo/plain.so -L"$(BUILT)" -lcai \
	        -L"$$($(SIM) libdir)" -lcuda -Wl,-rpath,'$$ORIGIN' && \
	    $(SIM) run --print=exit -- $(PY) examples-c/demo/python.py build/demo; \
	else echo; echo "Python's headers are not here: the part of the demo with an extension is left out."; fi
	@gcc -std=c99 -g -O1 -Wall -Wextra -Wpedantic -Wconversion -Iinclude -isystem "$(SITE)/nvidia/cu13/include" \
	    examples-c/06_streams.c -o build/demo/streams -L"$(BUILT)" -lcai -L"$$($(SIM) libdir)" -lcuda \
	    -Wl,-rpath,'$$ORIGIN'
	@$(PY) examples-c/demo/streams.py $(SIM) build/demo/streams
