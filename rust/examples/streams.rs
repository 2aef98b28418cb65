//! Two libraries in one program, each with a stream of cudarc's, exchange an array of a GPU: the
//! first makes it, the second reads and writes it. Neither blocks the other.
//!
//! ```text
//! cargo build -p libcai --example streams --features cudarc
//! cuda-sim run -- target/debug/examples/streams
//! ```

use std::error::Error;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream};
use libcai::cudarc::{Imported, array_of};
use libcai::{Access, Array, Builder, Consumer, Device};

/// The first library: its work on the result is still pending when it returns.
fn produce(stream: &Arc<CudaStream>) -> Result<Array, Box<dyn Error>> {
    let mut slice = stream.alloc_zeros::<f32>(3)?;
    stream.memcpy_htod(&[7.0f32; 3], &mut slice)?;
    Ok(array_of(slice, &[3])?)
}

/// The second library reads the array on its own stream. The array is released after the copy.
fn read(array: Array, stream: &Arc<CudaStream>) -> Result<Vec<f32>, Box<dyn Error>> {
    let imported = Imported::<f32>::read(array, stream)?;
    Ok(stream.clone_dtoh(&imported.view(stream)?)?)
}

/// It writes the array as well.
fn write(array: Array, stream: &Arc<CudaStream>) -> Result<(), Box<dyn Error>> {
    // SAFETY: nothing else accesses the data, except on streams that are ordered with the array's.
    let mut imported = unsafe { Imported::<f32>::write(array, stream) }?;
    stream.memcpy_htod(&[9.0f32; 3], &mut imported.view_mut(stream)?)?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let context = CudaContext::new(0)?;
    let (first, second) = (context.new_stream()?, context.new_stream()?);
    let array = produce(&first)?;
    println!("shared: {:?}", read(array.clone(), &second)?);
    write(array.clone(), &second)?;
    // The first library goes on: its stream waits for what the second one has written.
    println!("written by the second library: {:?}", read(array.clone(), &first)?);

    if let Err(error) = Imported::<i32>::read(array.clone(), &second) {
        println!("refused: {error}");
    }
    let read_only = {
        let builder = Builder::new(array.data().cast::<f32>(), &[3]).read_only();
        let builder = builder.device(Device::cuda(0)).stream(array.stream());
        // SAFETY: the same data, which the new array keeps alive.
        unsafe { builder.build(array.clone()) }?
    };
    // SAFETY: the array is refused.
    if let Err(error) = unsafe { Imported::<f32>::write(read_only, &second) } {
        println!("refused: {error}");
    }

    // Work of any other kind on the second stream goes between the two ends.
    let on = libcai::cudarc::stream(&second);
    let work = Consumer::begin(&array, on, Access::Read)?;
    work.end()?;
    println!("copied to the host: {:?}", array.to_vec::<f32>()?);
    array.release_after(on).map_err(|(_, error)| error)?;
    Ok(())
}
