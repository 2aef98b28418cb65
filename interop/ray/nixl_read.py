"""NIXL reads an array of another process; with TCP between machines as well. Prints what was read.

    python nixl_read.py         needs nixl-cu13, PyTorch, NumPy and libcai; no GPU, because the array is on the host
"""

import multiprocessing

import numpy as np
from nixl_cu13 import nixl_agent, nixl_agent_config

import libcai


def block(array):
    """What NIXL needs of an array of any library: address, bytes and device, after the pending work."""
    view = libcai.view(array)
    view.synchronize()
    kind = "VRAM" if view.is_device_accessible else "DRAM"
    return view, [(view.ptr, view.nbytes, max(view.device_id, 0), "")], kind


def serve(pipe):
    agent = nixl_agent("source", nixl_agent_config(backends=["UCX"]))
    view, memory, kind = block(np.arange(4.0))
    registered = agent.register_memory(memory, kind)
    pieces = agent.get_xfer_descs([piece[:3] for piece in memory], kind)
    pipe.send((agent.get_agent_metadata(), agent.get_serialized_descs(pieces)))
    pipe.recv()  # until it was read
    agent.deregister_memory(registered)
    view.release()


def main():
    pipe, other = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(other,))
    server.start()
    agent = nixl_agent("target", nixl_agent_config(backends=["UCX"]))
    values = np.zeros(4)
    view, memory, kind = block(values)
    registered = agent.register_memory(memory, kind)
    metadata, remote = pipe.recv()
    source = agent.add_remote_agent(metadata)
    local = agent.get_xfer_descs([piece[:3] for piece in memory], kind)
    transfer = agent.initialize_xfer("READ", local, agent.deserialize_descs(remote), source)
    state = agent.transfer(transfer)
    while state == "PROC":
        state = agent.check_xfer_state(transfer)
    agent.release_xfer_handle(transfer)
    agent.remove_remote_agent(source)
    agent.deregister_memory(registered)
    view.release()
    pipe.send("read")
    server.join()
    print(state, values.tolist())


if __name__ == "__main__":
    main()
