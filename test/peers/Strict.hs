-- Strict.hs - event logs as the library ghc-events reads them, strictly: every event has to be of a
-- known type. Prints a line of words with tabs between for each event; who reads these compares them
-- with the bytes.
module Main (main) where

import Control.Monad (forM_)
import Data.List (intercalate)
import qualified Data.Text as T
import qualified Data.Vector.Unboxed as V
import GHC.RTS.Events
import System.Environment (getArgs)
import System.Exit (exitFailure)
import System.IO

number :: HeapProfBreakdown -> Int
number breakdown = case breakdown of
    HeapProfBreakdownCostCentre -> 1
    HeapProfBreakdownModule -> 2
    HeapProfBreakdownClosureDescr -> 3
    HeapProfBreakdownTypeDescr -> 4
    HeapProfBreakdownRetainer -> 5
    HeapProfBreakdownBiography -> 6
    HeapProfBreakdownClosureType -> 7
    HeapProfBreakdownInfoTable -> 8

-- No control character is in a log of heapx, so that none of them can be taken for an end.
text :: T.Text -> String
text t
    | T.any (`elem` "\t\n\r") t = error ("a control character in " ++ show t)
    | otherwise = T.unpack t

stack :: V.Vector Int -> String
stack = intercalate "," . map show . V.toList

-- The words of an event; Nothing: it is none that a log of heapx has.
wordsOf :: EventInfo -> Maybe [String]
wordsOf info = case info of
    Message m -> Just ["message", text m]
    CapsetCreate set kind -> Just ["set", show set, show kind]
    RtsIdentifier set name -> Just ["writer", show set, text name]
    ProgramArgs set args -> Just ["program", show set, intercalate " " (map text args)]
    OsProcessPid set pid -> Just ["pid", show set, show pid]
    WallClockTime set s ns -> Just ["clock", show set, show s, show ns]
    HeapAllocated set n -> Just ["allocated", show set, show n]
    HeapSize set n -> Just ["size", show set, show n]
    HeapLive set n -> Just ["live", show set, show n]
    HeapProfBegin i period by m c t cc ccs r b ->
        Just (["begin", show i, show period, show (number by)] ++ map text [m, c, t, cc, ccs, r, b])
    HeapProfCostCentre i label m source flags ->
        Just ["centre", show i, text label, text m, text source, last (words (show flags))]
    HeapProfSampleBegin n -> Just ["sample", show n]
    HeapBioProfSampleBegin n at -> Just ["biography", show n, show at]
    HeapProfSampleEnd n -> Just ["end", show n]
    HeapProfSampleCostCentre i n depth s ->
        Just ["stack", show i, show n, show depth, stack (V.map fromIntegral s)]
    HeapProfSampleString i n name -> Just ["string", show i, show n, text name]
    ProfBegin interval -> Just ["ticks", show interval]
    ProfSampleCostCentre c tick depth s ->
        Just ["tick", show c, show tick, show depth, stack (V.map fromIntegral s)]
    _ -> Nothing

main :: IO ()
main = do
    hSetEncoding stdout utf8
    files <- getArgs
    forM_ files $ \file -> do
        result <- readEventLogFromFile file
        case result of
            Left why -> hPutStrLn stderr (file ++ ": " ++ why) >> exitFailure
            Right (EventLog _ (Data events)) -> do
                putStrLn ("file\t" ++ file)
                forM_ events $ \event -> case wordsOf (evSpec event) of
                    Just found ->
                        putStrLn (intercalate "\t" (show (evTime event) : found))
                    Nothing -> do
                        hPutStrLn stderr (file ++ ": " ++ show event)
                        exitFailure
